/* Communicators, groups, attributes and info by the standard, on any number of ranks.
 *
 *   comms [GATE]    again and again until GATE exists; the ranks may be on several hosts */
#include "check.h"

static int rank, size, copies, deletes;

static int on_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c, (void)key, (void)extra;
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)c, (void)key, (void)value, (void)extra;
    deletes++;
    return MPI_SUCCESS;
}

/* The split by a process set has so many members, none if there is no such set. */
static void split_by_process_set(const char *name, int members)
{
    MPI_Info info;
    MPI_Comm comm;
    int n = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_pset_name", name);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm);
    MPI_Info_free(&info);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_size(comm, &n);
        MPI_Comm_free(&comm);
    }
    CHECK(n == members);
}

static void splits(int apart)
{
    MPI_Comm half, rev, none, node;
    int r, n, result, sum = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_rank(half, &r);
    MPI_Comm_size(half, &n);
    CHECK(r == rank / 2 && n == (size + (rank % 2 == 0)) / 2);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    int want = 0;
    for (int i = rank % 2; i < size; i += 2)
        want += i;
    CHECK(sum == want);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &rev);
    MPI_Comm_rank(rev, &r);
    CHECK(r == size - 1 - rank);
    MPI_Comm_compare(MPI_COMM_WORLD, rev, &result);
    CHECK(result == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &none);
    CHECK((none == MPI_COMM_NULL) == (rank == 0));
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &r);
    MPI_Comm_size(node, &n);
    CHECK(apart || n == size);
    /* Each rank is in one of these communicators. */
    int counted = r == 0 ? n : 0;
    MPI_Allreduce(&counted, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size);
    MPI_Comm_free(&node);
    split_by_process_set("mpi://world", size);
    split_by_process_set("MPI://Self", 1);
    split_by_process_set("mpi://nobody", 0);
    if (none != MPI_COMM_NULL)
        MPI_Comm_free(&none);
    MPI_Comm_free(&rev);
    MPI_Comm_free(&half);
}

static void contexts_are_apart(void)
{
    MPI_Comm a, b;
    int x = 1, y = 2, in = 0;
    MPI_Request r[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(a, &b);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Isend(&x, 1, MPI_INT, next, 0, a, &r[0]);
    MPI_Isend(&y, 1, MPI_INT, next, 0, b, &r[1]);
    MPI_Recv(&in, 1, MPI_INT, before, 0, b, MPI_STATUS_IGNORE);
    CHECK(in == 2);
    MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, a, MPI_STATUS_IGNORE);
    CHECK(in == 1);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&a);
    MPI_Comm_free(&b);
    for (int i = 0; i < 3000; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &a);
        MPI_Comm_free(&a);
    }
}

static void groups(void)
{
    MPI_Group world, even, odd, both, none;
    MPI_Comm c;
    int range[1][3] = {{0, size - 1, 2}}, n, result;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Group_union(even, odd, &both);
    MPI_Group_intersection(even, odd, &none);
    CHECK(none == MPI_GROUP_EMPTY);
    MPI_Group_compare(world, both, &result);
    CHECK(result == (size <= 2 ? MPI_IDENT : MPI_SIMILAR));
    MPI_Group_size(even, &n);
    CHECK(n == (size + 1) / 2);
    MPI_Comm_create(MPI_COMM_WORLD, even, &c);
    CHECK((c == MPI_COMM_NULL) == (rank % 2 == 1));
    if (c != MPI_COMM_NULL) {
        int sum = 0, one = 1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
        CHECK(sum == n);
        MPI_Comm_free(&c);
    }
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, even, 7, &c);
        MPI_Barrier(c);
        MPI_Comm_free(&c);
    }
    int from = 0, to = -5;
    MPI_Group_translate_ranks(even, 1, &from, odd, &to);
    CHECK(to == MPI_UNDEFINED);
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
    MPI_Group_free(&both);
    MPI_Group_free(&world);
}

static void attributes(void)
{
    int key, flag, *ub;
    void *value;
    static int base[4];
    MPI_Comm c;
    copies = deletes = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag);
    CHECK(flag && *ub >= 32767);
    MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, base);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    CHECK(copies == 1);
    MPI_Comm_get_attr(c, key, &value, &flag);
    CHECK(flag && value == (char *)base + 1);
    MPI_Comm_free(&c);
    CHECK(deletes == 1);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK(deletes == 2);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
}

static void names_and_info(void)
{
    char name[MPI_MAX_OBJECT_NAME], value[100];
    int len, flag, n;
    MPI_Info info, copy;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(!strcmp(name, "MPI_COMM_WORLD") && len == (int)strlen(name));
    MPI_Info_create(&info);
    MPI_Info_set(info, "alpha", "1");
    MPI_Info_set(info, "beta", "two words");
    MPI_Info_set(info, "alpha", "3");
    MPI_Info_get_nkeys(info, &n);
    CHECK(n == 2);
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "alpha");
    len = sizeof value;
    MPI_Info_get_string(copy, "alpha", &len, value, &flag);
    CHECK(flag && !strcmp(value, "3") && len == 2);
    MPI_Info_get_nthkey(copy, 1, value);
    CHECK(!strcmp(value, "beta"));
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    do {
        splits(argc > 1);
        contexts_are_apart();
        groups();
        attributes();
        names_and_info();
    } while (argc > 1 && is_closed(argv[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("comms: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
