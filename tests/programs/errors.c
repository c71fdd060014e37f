/* Bad arguments give the standard's error class through the error handler, and never a crash. */
#include "check.h"

static int calls, last_class;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    calls++;
    last_class = class_of(*code);
}

#define GIVES(cls, call)                                                                     \
    do {                                                                                     \
        int code_ = (call);                                                                  \
        if (class_of(code_) != (cls)) {                                                      \
            fprintf(stderr, "%s:%d: %s gives class %d, wanted %s\n", __FILE__, __LINE__, #call, \
                    class_of(code_), #cls);                                                  \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                    \
        }                                                                                    \
    } while (0)

static void point_to_point(int size)
{
    int x = 0;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype raw;
    GIVES(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, -7, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_RANK, MPI_Recv(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    GIVES(MPI_ERR_TAG, MPI_Send(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD));
    GIVES(MPI_ERR_TAG, MPI_Isend(&x, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &r));
    GIVES(MPI_ERR_COUNT, MPI_Send(&x, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_TYPE, MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_COMM, MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    GIVES(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    MPI_Type_contiguous(2, MPI_INT, &raw);
    GIVES(MPI_ERR_TYPE, MPI_Send(&x, 1, raw, 0, 0, MPI_COMM_WORLD));
    MPI_Type_free(&raw);
    GIVES(MPI_ERR_REQUEST, MPI_Start(&r));
}

static void truncation(int rank)
{
    int big[4] = {1, 2, 3, 4}, small[2] = {0, 0};
    MPI_Request r;
    MPI_Irecv(small, 2, MPI_INT, rank, 9, MPI_COMM_WORLD, &r);
    MPI_Send(big, 4, MPI_INT, rank, 9, MPI_COMM_WORLD);
    GIVES(MPI_ERR_TRUNCATE, MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(r == MPI_REQUEST_NULL);
    CHECK(small[0] == 1 && small[1] == 2);
    MPI_Request both[2];
    MPI_Status s[2];
    /* Error fields are written only with MPI_ERR_IN_STATUS. */
    s[0].MPI_ERROR = s[1].MPI_ERROR = 4711;
    MPI_Irecv(small, 2, MPI_INT, rank, 9, MPI_COMM_WORLD, &both[0]);
    MPI_Irecv(small + 1, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &both[1]);
    MPI_Send(big, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Send(big, 1, MPI_INT, rank, 8, MPI_COMM_WORLD);
    CHECK(MPI_Waitall(2, both, s) == MPI_SUCCESS);
    CHECK(s[0].MPI_ERROR == 4711 && s[1].MPI_ERROR == 4711);
    MPI_Irecv(small + 1, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &both[0]);
    MPI_Irecv(small, 2, MPI_INT, rank, 9, MPI_COMM_WORLD, &both[1]);
    MPI_Send(big, 4, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Send(big, 1, MPI_INT, rank, 8, MPI_COMM_WORLD);
    GIVES(MPI_ERR_IN_STATUS, MPI_Waitall(2, both, s));
    CHECK(s[0].MPI_ERROR == MPI_SUCCESS && class_of(s[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    MPI_Irecv(small, 2, MPI_INT, rank, 9, MPI_COMM_WORLD, &both[0]);
    MPI_Irecv(small + 1, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &both[1]);
    MPI_Send(big, 4, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Send(big, 1, MPI_INT, rank, 8, MPI_COMM_WORLD);
    GIVES(MPI_ERR_IN_STATUS, MPI_Waitall(2, both, s));
    CHECK(class_of(s[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(s[1].MPI_ERROR == MPI_SUCCESS || class_of(s[1].MPI_ERROR) == MPI_ERR_PENDING);
}

static void objects(int size)
{
    int x = 0, y = 0;
    MPI_Comm c;
    MPI_Group g, h;
    MPI_Datatype t;
    int outside[1] = {size};
    int twice[2] = {0, 0};
    GIVES(MPI_ERR_ROOT, MPI_Bcast(&x, 1, MPI_INT, size, MPI_COMM_WORLD));
    GIVES(MPI_ERR_ROOT, MPI_Reduce(&x, &y, 1, MPI_INT, MPI_SUM, -1, MPI_COMM_WORLD));
    GIVES(MPI_ERR_OP, MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
    GIVES(MPI_ERR_OP, MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD));
    GIVES(MPI_ERR_COMM, MPI_Comm_dup(MPI_COMM_NULL, &c));
    GIVES(MPI_ERR_COMM, MPI_Comm_rank(MPI_COMM_NULL, &x));
    GIVES(MPI_ERR_COMM, MPI_Comm_rank((MPI_Comm)0x7f1234567890, &x));
    MPI_Comm_group(MPI_COMM_WORLD, &g);
    GIVES(MPI_ERR_RANK, MPI_Group_incl(g, 1, outside, &h));
    GIVES(MPI_ERR_RANK, MPI_Group_incl(g, 2, twice, &h));
    GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &x));
    MPI_Group_free(&g);
    CHECK(g == MPI_GROUP_NULL);
    GIVES(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &t));
    GIVES(MPI_ERR_TYPE, MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t));
    GIVES(MPI_ERR_TYPE, MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL}));
    GIVES(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, 123456, &x));
    GIVES(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_NULL, "a", "b"));
}

static void stale_handles(void)
{
    MPI_Comm c, old;
    MPI_Datatype t, freed;
    int x;
    MPI_Comm_dup(MPI_COMM_SELF, &c);
    old = c;
    MPI_Comm_free(&c);
    CHECK(c == MPI_COMM_NULL);
    GIVES(MPI_ERR_COMM, MPI_Comm_size(old, &x));
    MPI_Type_contiguous(3, MPI_INT, &t);
    freed = t;
    MPI_Type_free(&t);
    GIVES(MPI_ERR_TYPE, MPI_Type_size(freed, &x));
}

static void handlers(int size)
{
    MPI_Errhandler mine, got;
    char text[MPI_MAX_ERROR_STRING];
    int x = 0, len;
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == mine);
    MPI_Errhandler_free(&got);
    int code = MPI_Send(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    CHECK(calls == 1 && last_class == MPI_ERR_RANK && class_of(code) == MPI_ERR_RANK);
    MPI_Error_string(code, text, &len);
    CHECK(len > 0 && (int)strlen(text) == len);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&mine);
    CHECK(mine == MPI_ERRHANDLER_NULL);
}

/* Numbers stand with their nouns, and a function is named once. */
static void messages(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int len, code;
    MPI_Win win;
    code = MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, "holds 1 element") && !strstr(text, "elements"));
    code = MPI_Win_create(&len, sizeof len, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Error_string(code, text, &len);
    const char *name = strstr(text, "MPI_Win_create");
    CHECK(name && !strstr(name + 1, "MPI_Win_create"));
    CHECK(strstr(text, "is not implemented yet"));
}

/* What one process of two groups does wrong ends the call of all. */
static void between_groups(int rank, int size)
{
    MPI_Comm local, inter, none;
    MPI_Group mine, other;
    int low = rank < (size + 1) / 2, x[2] = { 1, 1 }, y[2], dims = 1, periods = 0;
    MPI_Comm_split(MPI_COMM_WORLD, low, 0, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? (size + 1) / 2 : 0, 0, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    GIVES(MPI_ERR_ARG, MPI_Comm_split(inter, rank ? 0 : -7, 0, &none));
    MPI_Comm_group(inter, &mine);
    MPI_Comm_remote_group(inter, &other);
    GIVES(MPI_ERR_GROUP, MPI_Comm_create(inter, rank ? mine : other, &none));
    CHECK(none == MPI_COMM_NULL);
    GIVES(MPI_ERR_TRUNCATE, MPI_Allreduce(x, y, 1 + low, MPI_INT, MPI_SUM, inter));
    GIVES(MPI_ERR_COMM, MPI_Cart_map(inter, 1, &dims, &periods, y));
    /* Beside the root no other argument counts. */
    int root = !low ? 0 : rank ? MPI_PROC_NULL : MPI_ROOT;
    MPI_Op op = root == MPI_PROC_NULL ? MPI_OP_NULL : MPI_SUM;
    CHECK(MPI_Reduce(x, y, 1, MPI_INT, op, root, inter) == MPI_SUCCESS);
    CHECK(rank || y[0] == size / 2);
    MPI_Group_free(&mine);
    MPI_Group_free(&other);
    MPI_Comm_free(&local);
    MPI_Comm_free(&inter);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    point_to_point(size);
    truncation(rank);
    objects(size);
    stale_handles();
    handlers(size);
    messages();
    if (size > 1)
        between_groups(rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("errors: all as the standard says\n");
    MPI_Finalize();
    return 0;
}
