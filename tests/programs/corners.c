/* Corners of the standard where a program meets null handles, errors and names. */
#include "check.h"

static int told, told_class;

static void tell(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == MPI_COMM_NULL);
    told++;
    told_class = class_of(*code);
}

static int is_name(MPI_Datatype type, const char *wanted)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Type_get_name(type, name, &len);
    return !strcmp(name, wanted) && len == (int)strlen(wanted);
}

static void before_init(void)
{
    char value[MPI_MAX_INFO_VAL];
    int found, len = sizeof value;
    MPI_Info info;
    CHECK(MPI_Info_create_env(0, NULL, &info) == MPI_SUCCESS);
    MPI_Info_get_string(info, "maxprocs", &len, value, &found);
    CHECK(found && atoi(value) >= 1);
    len = sizeof value;
    MPI_Info_get_string(info, "host", &len, value, &found);
    CHECK(found && strlen(value) > 0);
    MPI_Info_free(&info);
}

static void null_handles(int ranks)
{
    int dims[1] = {ranks + 1}, periods[1] = {0}, len;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm grid = MPI_COMM_WORLD;
    MPI_Request request;
    MPI_Status status;
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid) != MPI_SUCCESS);
    CHECK(grid == MPI_COMM_NULL);
    CHECK(MPI_Win_get_name(MPI_WIN_NULL, name, &len) == MPI_SUCCESS);
    CHECK(!strcmp(name, "MPI_WIN_NULL") && len == 12);
    CHECK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    CHECK(MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_Sendrecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, NULL, 0, MPI_DATATYPE_NULL,
                       MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(class_of(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
}

static void reductions(int ranks)
{
    int value = 1;
    char letters[2] = {1, 2};
    CHECK(class_of(MPI_Reduce_local(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(MPI_Allreduce(MPI_IN_PLACE, letters, 2, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(letters[0] == ranks && letters[1] == 2 * ranks);
}

/* A buffer that is sent must not be the one that is received, nor this rank's block of it. */
static void aliased_buffers(int ranks)
{
    int rank, out[2] = {1, 1}, all[2] = {0, 0};
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(class_of(MPI_Allgather(all, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Allgather(all + rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Alltoall(all, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Gather(all, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Scatter(all, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    /* Nothing is moved. */
    CHECK(MPI_Allgather(all, 0, MPI_INT, all, 0, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Alltoall(all, 0, MPI_INT, all, 0, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    /* The calls that were refused left nothing behind. */
    CHECK(MPI_Alltoall(out, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(all[0] == 1 && all[ranks - 1] == 1);
}

/* The same where counts differ from rank to rank. */
static void aliased_blocks(int ranks)
{
    int rank, both[4] = {1, 2, 0, 0}, counts[2] = {1, 1}, none[2] = {0, 0}, low[2] = {0, 1}, high[2] = {2, 3};
    int bytes[2] = {0, sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, other[2] = {MPI_FLOAT, MPI_FLOAT};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(class_of(MPI_Allgatherv(both + rank, 1, MPI_INT, both, counts, low, MPI_INT, MPI_COMM_WORLD)) ==
          MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Alltoallv(both, counts, low, MPI_INT, both, counts, low, MPI_INT, MPI_COMM_WORLD)) ==
          MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Alltoallw(both, counts, bytes, types, both, counts, bytes, types, MPI_COMM_WORLD)) ==
          MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Gatherv(both + 2, 1, MPI_INT, both, counts, high, MPI_INT, 0, MPI_COMM_SELF)) ==
          MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Scatterv(both, counts, high, MPI_INT, both + 2, 1, MPI_INT, 0, MPI_COMM_SELF)) ==
          MPI_ERR_BUFFER);
    /* Nothing is moved, or what is sent lies beside what is received. */
    CHECK(MPI_Alltoallv(both, none, low, MPI_INT, both, none, low, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Alltoallw(both, none, bytes, types, both, none, bytes, other, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Gatherv(both, 1, MPI_INT, both, counts, high, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(both[2] == 1);
    CHECK(MPI_Alltoallv(both, counts, low, MPI_INT, both, counts, high, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(both[2] == rank + 1 && both[1 + ranks] == rank + 1);
}

static void errors(void)
{
    int class, len;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler handler;
    MPI_Group world;
    MPI_Comm made = MPI_COMM_WORLD;
    MPI_Add_error_class(&class);
    MPI_Add_error_string(class, "a text of the program");
    CHECK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, class) == MPI_SUCCESS);
    MPI_Error_string(class, text, &len);
    CHECK(!strcmp(text, "a text of the program"));
    /* Errors of a constructor without a parent go to the handler that it is given. */
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    CHECK(MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, handler, &made) != MPI_SUCCESS);
    CHECK(told == 1 && told_class == MPI_ERR_ARG && made == MPI_COMM_NULL);
    MPI_Group_free(&world);
    MPI_Errhandler_free(&handler);
}

static void sessions(void)
{
    char value[MPI_MAX_INFO_VAL];
    int found, len = sizeof value, size;
    MPI_Session session;
    MPI_Group group;
    MPI_Info info;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &len, value, &found);
    CHECK(found && !strcmp(value, "MPI_THREAD_MULTIPLE"));
    len = sizeof value;
    MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &len, value, &found);
    CHECK(found && strstr(value, "system"));
    MPI_Info_free(&info);
    CHECK(MPI_Group_from_session_pset(session, "MPI://self", &group) == MPI_SUCCESS);
    MPI_Group_size(group, &size);
    CHECK(size == 1);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    int ranks, me, provided;
    before_init();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    CHECK(is_name(MPI_C_COMPLEX, "MPI_C_COMPLEX"));
    CHECK(is_name(MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX"));
    null_handles(ranks);
    reductions(ranks);
    aliased_buffers(ranks);
    aliased_blocks(ranks);
    errors();
    sessions();
    if (me == 0)
        printf("corners: right on %d ranks\n", ranks);
    MPI_Finalize();
    return 0;
}
