/* Attributes, keyvals and info by the standard, from before MPI_Init to after MPI_Finalize. */
#include "check.h"

static int rank, size, copies, log_len, log_of[8];
static int ended; /* whether MPI_COMM_SELF is being deleted by MPI_Finalize */

/* Calls MPI from inside a callback, as programs do. */
static int type_copy(MPI_Datatype t, int key, void *extra, void *in, void *out, int *flag)
{
    int bytes;
    (void)key;
    MPI_Type_size(t, &bytes);
    copies += bytes == 8 && extra == &copies;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int type_delete(MPI_Datatype t, int key, void *value, void *extra)
{
    (void)t, (void)key, (void)extra;
    log_of[log_len++ % 8] = *(int *)value;
    return MPI_SUCCESS;
}

static int refuse_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c, (void)key, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int at_end(MPI_Comm c, int key, void *value, void *extra)
{
    int r, flag, same;
    (void)key, (void)extra;
    MPI_Finalized(&flag);
    MPI_Comm_size(MPI_COMM_WORLD, &r);
    MPI_Comm_compare(c, MPI_COMM_SELF, &same);
    CHECK(!flag && r == size && same == MPI_IDENT);
    CHECK(ended == *(int *)value);
    ended++;
    return MPI_SUCCESS;
}

static void types(void)
{
    static int one = 1, two = 2, three = 3;
    int key, saved, dup, flag, *value;
    MPI_Datatype a, b;
    MPI_Type_create_keyval(type_copy, type_delete, &key, &copies);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &dup, NULL);
    MPI_Type_contiguous(2, MPI_INT, &a);
    MPI_Type_get_attr(a, key, &value, &flag);
    CHECK(!flag);
    MPI_Type_set_attr(a, key, &one);
    MPI_Type_set_attr(a, key, &two);
    MPI_Type_set_attr(a, dup, &three);
    CHECK(log_len == 1 && log_of[0] == 1);
    MPI_Type_dup(a, &b);
    CHECK(copies == 1);
    MPI_Type_get_attr(b, dup, &value, &flag);
    CHECK(flag && value == &three);
    saved = key;
    MPI_Type_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Type_free(&b);
    CHECK(log_len == 2 && log_of[1] == 2);
    MPI_Type_delete_attr(a, saved);
    CHECK(log_len == 3 && log_of[2] == 2);
    MPI_Type_free(&a);
    CHECK(log_len == 3);
    MPI_Type_free_keyval(&dup);
}

static void communicators(void)
{
    static int places[3] = {2, 1, 0};
    int key, refused, flag, *at, code, before = 0;
    MPI_Comm c, copy = MPI_COMM_NULL;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &at, &flag);
    CHECK(!flag || *at == 0 || *at == 1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &at, &flag);
    CHECK(flag && (before = *at) >= MPI_ERR_LASTCODE);
    MPI_Add_error_class(&code);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &at, &flag);
    CHECK(flag && *at >= code && code > before);

    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &refused, NULL);
    MPI_Comm_set_attr(c, refused, places);
    CHECK(MPI_Comm_dup(c, &copy) != MPI_SUCCESS);
    MPI_Comm_delete_attr(c, refused);
    CHECK(class_of(MPI_Comm_delete_attr(c, MPI_KEYVAL_INVALID)) != MPI_SUCCESS);
    MPI_Comm_free_keyval(&refused);
    MPI_Comm_dup(c, &copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&c);

    /* Deleted by MPI_Finalize, last set first (MPI-5.0 11.2.4). */
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &places[i]);
        MPI_Comm_free_keyval(&key);
    }
}

static void group_ranges(void)
{
    MPI_Group world, mirrored, rest;
    int all[1][3] = {{size - 1, 0, -1}}, first[1][3] = {{0, 0, 1}}, n, code;
    int from[2] = {0, MPI_PROC_NULL}, to[2];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, all, &mirrored);
    MPI_Group_translate_ranks(mirrored, 2, from, world, to);
    CHECK(to[0] == size - 1 && to[1] == MPI_PROC_NULL);
    MPI_Group_rank(mirrored, &n);
    CHECK(n == size - 1 - rank);
    MPI_Group_range_excl(mirrored, 1, first, &rest);
    MPI_Group_size(rest, &n);
    CHECK(n == size - 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Group_incl(world, 1, &size, &rest);
    CHECK(class_of(code) == MPI_ERR_RANK);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Group_free(&rest);
    MPI_Group_free(&mirrored);
    MPI_Group_free(&world);
    CHECK(world == MPI_GROUP_NULL);
}

/* Works before MPI_Init and after MPI_Finalize (MPI-5.0 11.4.1). */
static int info_works(int argc, char **argv)
{
    MPI_Info info = MPI_INFO_NULL, env;
    char value[32] = "unset";
    int len = 3, flag = 0, n = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_string(info, "key", &len, value, &flag);
    if (!flag || len != 6 || strcmp(value, "va"))
        return 0;
    MPI_Info_get_string(info, "other", &len, value, &flag);
    MPI_Info_free(&info);
    if (flag || info != MPI_INFO_NULL)
        return 0;
    MPI_Info_create_env(argc, argv, &env);
    MPI_Info_get_nkeys(env, &n);
    MPI_Info_free(&env);
#if MPI_VERSION >= 5
    MPI_Abi_get_info(&info);
    len = sizeof value;
    MPI_Info_get_string(info, "mpi_count_size", &len, value, &flag);
    MPI_Info_free(&info);
    if (!flag || strcmp(value, "8"))
        return 0;
#endif
    return n >= 0;
}

/* The tools' interface works before MPI_Init, and counts how often it is open. */
static int tools_work(void)
{
    int n = -1, at, provided = -1;
    if (MPI_T_cvar_get_num(&n) != MPI_T_ERR_NOT_INITIALIZED)
        return 0;
    for (int i = 0; i < 2; i++)
        if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS || provided < 0)
            return 0;
    MPI_T_finalize();
    if (MPI_T_cvar_get_num(&n) != MPI_SUCCESS || n < 0)
        return 0;
    n = -1;
    if (MPI_T_pvar_get_num(&n) != MPI_SUCCESS || n < 0)
        return 0;
    if (MPI_T_cvar_get_index("no such variable", &at) != MPI_T_ERR_INVALID_NAME)
        return 0;
    MPI_T_finalize();
    return MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED;
}

/* MPI-5.0 11.4.3 */
static int has_memory_kinds(MPI_Info info)
{
#if MPI_VERSION >= 5
    char value[MPI_MAX_INFO_VAL];
    int flag, len = sizeof value;
    MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &len, value, &flag);
    return flag && strstr(value, "system") && strstr(value, "mpi");
#else
    (void)info;
    return 1;
#endif
}

/* The keys are URIs, and a guided split knows them (MPI-5.0 9.1.2, 7.4.2). */
static int has_resources(void)
{
#if MPI_VERSION >= 5
    MPI_Info known, wanted;
    MPI_Comm part;
    char key[MPI_MAX_INFO_KEY];
    int n, whole = 1;
    MPI_Get_hw_resource_info(&known);
    MPI_Info_get_nkeys(known, &n);
    for (int i = 0; i < n && whole; i++) {
        MPI_Info_get_nthkey(known, i, key);
        MPI_Info_create(&wanted);
        MPI_Info_set(wanted, "mpi_hw_resource_type", key);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, wanted, &part);
        MPI_Info_free(&wanted);
        whole = strstr(key, "://") && part != MPI_COMM_NULL;
        if (part != MPI_COMM_NULL)
            MPI_Comm_free(&part);
    }
    MPI_Info_free(&known);
    return whole;
#else
    return 1;
#endif
}

int main(int argc, char **argv)
{
    MPI_Comm c;
    MPI_Info info, used;
    int n, flag, len = 32;
    char value[32];
    if (!info_works(argc, argv))
        return 4;
    if (!tools_work())
        return 6;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    types();
    communicators();
    group_ranges();
    CHECK(info_works(argc, argv));
    MPI_Info_get_nkeys(MPI_INFO_ENV, &n);
    CHECK(n >= 0);
    MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &len, value, &flag);
    CHECK(!flag || atoi(value) >= 1);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &c);
    MPI_Info_free(&info);
    MPI_Comm_get_info(c, &used);
    CHECK(has_memory_kinds(used));
    MPI_Info_free(&used);
    CHECK(has_memory_kinds(MPI_INFO_ENV));
    CHECK(has_resources());
    MPI_Comm_free(&c);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("objects: right on %d ranks\n", size);
    MPI_Finalize();
    if (ended != 3 || !info_works(argc, argv))
        return 5;
    return 0;
}
