/* What differs between MPI libraries in values and layout, seen by a program: special ranks and
 * tags, statuses, handles in arrays, callbacks, attributes, error classes, lengths of texts,
 * integers of handles.  It is right by MPI 3.1; Open MPI 5.0.11 itself reports another class than
 * MPI_ERR_IN_STATUS after MPI_Waitall. */
#include "check.h"

static int rank, size;

static void special_values(void)
{
    MPI_Status s;
    int x = 7, left, right, dims[1] = {0}, periods[1] = {0};
    s.MPI_ERROR = 12345;
    MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
    CHECK(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG && x == 7);
    CHECK(s.MPI_ERROR == 12345);
    MPI_Comm cart;
    MPI_Dims_create(size, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart);
    MPI_Cart_shift(cart, 0, 1, &left, &right);
    CHECK(left == (rank ? rank - 1 : MPI_PROC_NULL));
    CHECK(right == (rank + 1 < size ? rank + 1 : MPI_PROC_NULL));
    int kind;
    MPI_Topo_test(cart, &kind);
    CHECK(kind == MPI_CART);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    MPI_Comm_compare(cart, MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_CONGRUENT);
    MPI_Comm_free(&cart);
    CHECK(cart == MPI_COMM_NULL);
    MPI_Group all, none;
    int from[2] = {rank, MPI_PROC_NULL}, to[2];
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(MPI_COMM_SELF, &none);
    MPI_Group_translate_ranks(all, 2, from, none, to);
    CHECK(to[0] == 0 && to[1] == MPI_PROC_NULL);
    MPI_Group_free(&all);
    MPI_Group_free(&none);
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, rank ? MPI_UNDEFINED : 0, 0, &part);
    CHECK((part == MPI_COMM_NULL) == (rank != 0));
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    CHECK(part != MPI_COMM_NULL);
    MPI_Comm_free(&part);
}

/* More requests than fit into any array of a few, some of them null. */
static void many_requests(void)
{
    enum { N = 200 };
    MPI_Request r[2 * N + 1];
    MPI_Status s[2 * N + 1];
    int in[N], out[N], next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int i = 0; i < N; i++) {
        out[i] = 1000 * rank + i;
        MPI_Irecv(&in[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &r[2 * i]);
        MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &r[2 * i + 1]);
    }
    r[2 * N] = MPI_REQUEST_NULL;
    MPI_Waitall(2 * N + 1, r, s);
    for (int i = 0; i < N; i++) {
        int count;
        MPI_Get_count(&s[2 * i], MPI_INT, &count);
        CHECK(in[i] == 1000 * before + i && s[2 * i].MPI_SOURCE == before && s[2 * i].MPI_TAG == i && count == 1);
        CHECK(r[2 * i] == MPI_REQUEST_NULL && r[2 * i + 1] == MPI_REQUEST_NULL);
    }
    CHECK(r[2 * N] == MPI_REQUEST_NULL);
    int at, flag, done;
    MPI_Waitany(3, r, &at, MPI_STATUS_IGNORE);
    CHECK(at == MPI_UNDEFINED);
    MPI_Testsome(3, r, &done, &at, MPI_STATUSES_IGNORE);
    CHECK(done == MPI_UNDEFINED);
    MPI_Irecv(in, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &r[1]);
    MPI_Test(&r[1], &flag, MPI_STATUS_IGNORE);
    CHECK(!flag && r[1] != MPI_REQUEST_NULL);
    MPI_Cancel(&r[1]);
    MPI_Wait(&r[1], s);
    MPI_Test_cancelled(s, &flag);
    CHECK(flag && r[1] == MPI_REQUEST_NULL);
}

static int calls;

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT);
    for (int i = 0; i < *count; i++)
        if (((int *)in)[i] > ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
    calls++;
}

static int copied(MPI_Comm comm, int key, void *extra, void *value, void *result, int *flag)
{
    CHECK(comm == MPI_COMM_WORLD && key != MPI_KEYVAL_INVALID && extra == &calls);
    *(void **)result = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value;
    (*(int *)extra)++;
    return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    CHECK(*comm == MPI_COMM_WORLD && class == MPI_ERR_RANK);
    calls++;
}

static void callbacks(void)
{
    MPI_Op op;
    int key, second, flag, most = -1;
    MPI_Op_create(larger, 1, &op);
    MPI_Allreduce(&rank, &most, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(most == size - 1);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    calls = 0;
    MPI_Comm comm;
    char *value, text[2];
    MPI_Comm_create_keyval(copied, deleted, &key, &calls);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &second, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, text);
    MPI_Comm_set_attr(MPI_COMM_WORLD, second, text);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == text + 1);
    MPI_Comm_get_attr(comm, second, &value, &flag);
    CHECK(flag && value == text);
    MPI_Comm_free(&comm);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, second);
    CHECK(calls == 2);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free_keyval(&second);
    CHECK(key == MPI_KEYVAL_INVALID);
    calls = 0;
    MPI_Errhandler mine, before;
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    CHECK(before == MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    CHECK(MPI_Send(&rank, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD) != MPI_SUCCESS && calls == 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&mine);
    CHECK(mine == MPI_ERRHANDLER_NULL);
}

static void errors(void)
{
    int class, code, length, last, *bound, flag;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Send(&rank, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TYPE);
    MPI_Op none;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Op_create(NULL, 1, &none) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    /* Its class has another number in other libraries. */
    MPI_Request r[2];
    MPI_Status s[2];
    char small[2], sent[8] = "";
    MPI_Irecv(small, 2, MPI_CHAR, rank, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(sent, 8, MPI_CHAR, rank, 1, MPI_COMM_WORLD, &r[1]);
    code = MPI_Waitall(2, r, s);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_IN_STATUS);
    MPI_Error_class(s[0].MPI_ERROR, &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    MPI_Error_string(MPI_ERR_PENDING, text, &length);
    CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && (int)strlen(text) == length);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &bound, &flag);
    CHECK(flag && *bound >= MPI_ERR_LASTCODE);
    last = *bound;
    MPI_Add_error_class(&class);
    CHECK(class > last);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    CHECK(flag && *bound >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &bound, &flag);
    CHECK(flag && *bound == MPI_ANY_SOURCE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void texts(void)
{
    char name[MPI_MAX_OBJECT_NAME + 1], key[MPI_MAX_INFO_KEY + 1], version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    memset(name, 'x', sizeof name);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == 14);
    MPI_Type_get_name(MPI_INT, name, &length);
    CHECK(!strcmp(name, "MPI_INT"));
    MPI_Get_library_version(version, &length);
    CHECK(length > 0 && length < MPI_MAX_LIBRARY_VERSION_STRING);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_nthkey(info, 0, key);
    CHECK(!strcmp(key, "key"));
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);
}

static void datatypes(void)
{
    MPI_Datatype pair, array, parts[2] = {MPI_INT, MPI_DOUBLE}, got[2];
    int lengths[2] = {1, 2}, sizes[2] = {4, 6}, distributions[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1};
    MPI_Aint places[2] = {0, 8}, addresses[2];
    int n, a, d, kind, integers[16];
    MPI_Type_create_struct(2, lengths, places, parts, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_get_envelope(pair, &n, &a, &d, &kind);
    CHECK(kind == MPI_COMBINER_STRUCT && d == 2);
    MPI_Type_get_contents(pair, n, a, d, integers, addresses, got);
    CHECK(got[0] == MPI_INT && got[1] == MPI_DOUBLE && integers[2] == 2 && addresses[1] == 8);
    MPI_Type_create_darray(2, 0, 2, sizes, distributions, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT, &array);
    MPI_Type_get_envelope(array, &n, &a, &d, &kind);
    CHECK(kind == MPI_COMBINER_DARRAY);
    MPI_Type_get_contents(array, n, a, d, integers, addresses, got);
    CHECK(integers[5] == MPI_DISTRIBUTE_BLOCK && integers[6] == MPI_DISTRIBUTE_NONE);
    CHECK(integers[7] == MPI_DISTRIBUTE_DFLT_DARG && integers[n - 1] == MPI_ORDER_FORTRAN && got[0] == MPI_INT);
#if MPI_VERSION < 5
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(pair)) == pair);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL);
#endif
    MPI_Type_free(&array);
    MPI_Type_free(&pair);
    CHECK(pair == MPI_DATATYPE_NULL);
}

static void all_to_all(void)
{
    int *out = malloc(size * sizeof *out), *in = calloc(size, sizeof *in);
    int *ones = malloc(size * sizeof *ones), *places = malloc(size * sizeof *places);
    MPI_Datatype *types = malloc(size * sizeof *types);
    for (int i = 0; i < size; i++) {
        out[i] = 100 * rank + i;
        ones[i] = 1;
        places[i] = i * (int)sizeof *out;
        types[i] = MPI_INT;
    }
    for (int round = 0; round < 3; round++) {
        MPI_Request r = MPI_REQUEST_NULL;
        memset(in, 0, size * sizeof *in);
        if (round == 0)
            MPI_Alltoallw(out, ones, places, types, in, ones, places, types, MPI_COMM_WORLD);
        else
            MPI_Ialltoallw(out, ones, places, types, in, ones, places, types, MPI_COMM_WORLD, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++)
            CHECK(in[i] == 100 * i + rank);
    }
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, out, ones, places, types, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        CHECK(out[i] == 100 * i + rank);
    free(out), free(in), free(ones), free(places), free(types);
    MPI_Comm later;
    MPI_Request r;
    int result;
    MPI_Comm_idup(MPI_COMM_WORLD, &later, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Comm_compare(later, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&later);
}

/* Addresses that stand for no weights. */
static void graphs(void)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size, in, out, weighted;
    /* Compilers warn of addresses at which nothing is. */
    int *volatile unweighted = MPI_UNWEIGHTED, *volatile empty = MPI_WEIGHTS_EMPTY;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, unweighted, 1, &next, unweighted,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && !weighted);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, &before, empty, 0, &next, empty,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(in == 0 && out == 0 && weighted);
    MPI_Comm_free(&graph);
}

/* Sizes that an int can't hold have functions of their own. */
static void large_counts(void)
{
#if MPI_VERSION >= 4
    int out[3] = {rank, 2, 3}, in[3] = {0}, next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Status s;
    MPI_Count count, lower, extent;
    MPI_Datatype type;
    MPI_Sendrecv_c(out, 3, MPI_INT, next, 2, in, 3, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
    MPI_Get_count_c(&s, MPI_INT, &count);
    CHECK(count == 3 && in[0] == before && s.MPI_SOURCE == before && s.MPI_TAG == 2);
    MPI_Type_contiguous_c((MPI_Count)1 << 31, MPI_INT, &type);
    MPI_Type_get_extent_c(type, &lower, &extent);
    CHECK(lower == 0 && extent == (MPI_Count)1 << 33);
    MPI_Type_free(&type);
    MPI_Allreduce_c(MPI_IN_PLACE, in, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(in[0] == size - 1 && in[2] == 3);
#endif
}

static int asked(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_PROC_NULL;
    status->MPI_TAG = MPI_ANY_TAG;
    (*(int *)state)++;
    return MPI_SUCCESS;
}

static int freed(void *state)
{
    *(int *)state += 10;
    return MPI_SUCCESS;
}

static int cancelled(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void own_requests(void)
{
    int state = 0, count;
    MPI_Request r;
    MPI_Status s;
    MPI_Grequest_start(asked, freed, cancelled, &state, &r);
    MPI_Grequest_complete(r);
    MPI_Wait(&r, &s);
    MPI_Get_count(&s, MPI_INT, &count);
    CHECK(count == 3 && state == 11 && s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG);
}

/* MPI ignores these arguments, so programs leave in them what is on the stack. */
static void ignored_arguments(void)
{
    union { MPI_Datatype type; unsigned long long bits; } type = {.bits = 0x100000001};
    int root = size - 1, *all = calloc(size, sizeof *all), *ones = calloc(size, sizeof *ones);
    int *places = calloc(size, sizeof *places), mine = -1;
    for (int i = 0; i < size; i++) {
        ones[i] = 1;
        places[i] = i;
    }
    if (rank == root)
        type.type = MPI_INT;
    MPI_Gather(&rank, 1, MPI_INT, all, 1, type.type, root, MPI_COMM_WORLD);
    MPI_Scatter(all, 1, type.type, &mine, 1, MPI_INT, root, MPI_COMM_WORLD);
    CHECK(mine == rank);
    MPI_Gatherv(&rank, 1, MPI_INT, all, ones, places, type.type, root, MPI_COMM_WORLD);
    mine = -1;
    MPI_Scatterv(all, ones, places, type.type, &mine, 1, MPI_INT, root, MPI_COMM_WORLD);
    CHECK(mine == rank);
    MPI_Request r;
    MPI_Igather(&rank, 1, MPI_INT, all, 1, type.type, root, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    mine = -1;
    MPI_Iscatterv(all, ones, places, type.type, &mine, 1, MPI_INT, root, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(mine == rank);
    type.bits = 0x100000001;
    all[rank] = rank;
    MPI_Allgather(MPI_IN_PLACE, 0, type.type, all, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(all[size - 1] == size - 1);
    free(all), free(ones), free(places);
}

int main(int argc, char **argv)
{
    int provided, again;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    CHECK(provided >= MPI_THREAD_SERIALIZED && provided <= MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&again);
    CHECK(again == provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    special_values();
    many_requests();
    callbacks();
    errors();
    texts();
    datatypes();
    all_to_all();
    graphs();
    large_counts();
    own_requests();
    ignored_arguments();
    MPI_Finalize();
    if (rank == 0)
        printf("facade: right on %d ranks\n", size);
    return 0;
}
