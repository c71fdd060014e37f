/* Sessions (MPI-5.0 §11.3) without MPI_Init, then beside it when the program has an argument. */
#include "check.h"

static int ranks, me;

static void use(MPI_Session session, int initialized)
{
    int n, len = 0, flag, sum = 1, topology;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, place[2], rank;
    MPI_Group group;
    MPI_Comm comm, grid;
    MPI_Info info;
    char name[64];
    MPI_Initialized(&flag);
    CHECK(flag == initialized);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    CHECK(n == 2);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &len, name);
    CHECK(len == (int)sizeof "mpi://WORLD");
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &len, name);
    CHECK(strcmp(name, "mpi://WORLD") == 0);
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &len, name)) == MPI_ERR_ARG);
    MPI_Session_get_pset_info(session, name, &info);
    MPI_Info_free(&info);
    MPI_Group_from_session_pset(session, name, &group);
    CHECK(MPI_Comm_create_from_group(group, "a tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_size(comm, &ranks);
    MPI_Comm_rank(comm, &me);
    CHECK(ranks == sum);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(comm, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &topology);
    CHECK(topology == MPI_CART);
    MPI_Cart_get(grid, 2, dims, periods, place);
    MPI_Cart_rank(grid, place, &rank);
    MPI_Comm_rank(grid, &n);
    CHECK(n == rank);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

int main(int argc, char **argv)
{
    MPI_Session a, b;
    int flag;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &a) == MPI_SUCCESS);
    use(a, 0);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &b) == MPI_SUCCESS);
    MPI_Session_finalize(&a);
    CHECK(a == MPI_SESSION_NULL);
    if (argc > 1) {
        MPI_Init(&argc, &argv);
        use(b, 1);
        MPI_Finalize();
        MPI_Finalized(&flag);
        CHECK(flag);
    }
    use(b, argc > 1);
    MPI_Session_finalize(&b);
    /* Without the world model, other sessions may follow the last one. */
    if (argc == 1) {
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &a) == MPI_SUCCESS);
        use(a, 0);
        MPI_Session_finalize(&a);
    }
    if (me == 0)
        printf("sessions: right on %d ranks\n", ranks);
    return 0;
}
