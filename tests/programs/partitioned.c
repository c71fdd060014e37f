/* Partitioned communication: a ring of ranks, partitions that become ready in any order, other
 * numbers of them at the receiver, requests that are started in another order than they were set
 * up, and errors.
 *
 *   partitioned [STEPS]   of more than 50 steps each rank tells every 20th */
#include "check.h"

#define PARTS 6
#define EACH 500
#define ALL (PARTS * EACH)

static int rank, size, left, right;

/* The values that a rank sends in a step with a tag. */
static double value(int from, int tag, int step, int at)
{
    return from * 1e6 + tag * 1e5 + step % 1000 * 10 + at * 1e-3;
}

static void fill(double *data, int tag, int step)
{
    for (int i = 0; i < ALL; i++)
        data[i] = value(rank, tag, step, i);
}

static void check(const double *data, int tag, int step)
{
    for (int i = 0; i < ALL; i++)
        CHECK(data[i] == value(left, tag, step, i));
}

/* Marks all partitions, in three ways and some order. */
static void make_ready(MPI_Request send, unsigned *seed)
{
    int list[] = { 4, 1 }, first = next_random(seed) % 2 ? 0 : 5;
    MPI_Pready(first, send);
    MPI_Pready_list(2, list, send);
    MPI_Pready_range(2, 3, send);
    MPI_Pready(5 - first, send);
}

static void ring(int steps)
{
    static double out[2][ALL], in[2][ALL];
    MPI_Request send[2], recv[2];
    unsigned seed = 7;
    /* Both have one tag: the first that is set up here belongs to the first there. */
    for (int i = 0; i < 2; i++) {
        MPI_Psend_init(out[i], PARTS, EACH, MPI_DOUBLE, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send[i]);
        MPI_Precv_init(in[i], 3, ALL / 3, MPI_DOUBLE, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &recv[i]);
    }
    for (int step = 0; step < steps; step++) {
        int flag, first = next_random(&seed) % 2;
        MPI_Status status;
        MPI_Parrived(recv[0], 2, &flag);
        CHECK(flag);
        MPI_Startall(2, recv);
        /* Nothing has left the other side: its ranks wait for the barrier. */
        MPI_Parrived(recv[0], 0, &flag);
        CHECK(!flag);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 2; i++) {
            int at = (first + rank + i) % 2;
            MPI_Start(&send[at]);
            fill(out[at], at, step);
            make_ready(send[at], &seed);
        }
        for (flag = 0; !flag;)
            MPI_Parrived(recv[1], 1, &flag);
        check(in[1], 1, step);
        MPI_Wait(&recv[0], &status);
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 5);
        MPI_Wait(&recv[1], MPI_STATUS_IGNORE);
        check(in[0], 0, step);
        MPI_Waitall(2, send, MPI_STATUSES_IGNORE);
        if (steps > 50 && step % 20 == 19)
            printf("rank %d step %d %a\n", rank, step, in[0][step % ALL] + in[1][7]);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&send[i]);
        MPI_Request_free(&recv[i]);
    }
}

/* A column of a matrix, sent as partitions of a row each and received as one. */
static void columns(void)
{
    int matrix[8][8], column[8];
    MPI_Datatype type;
    MPI_Request r[2];
    MPI_Type_vector(1, 1, 8, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 8 * sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Precv_init(column, 1, 8, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Psend_init(&matrix[0][3], 8, 1, type, right, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    MPI_Type_free(&type);
    MPI_Startall(2, r);
    for (int i = 7; i >= 0; i--) {
        for (int j = 0; j < 8; j++)
            matrix[i][j] = rank * 100 + i * 8 + j;
        MPI_Pready(i, r[1]);
    }
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 8; i++)
        CHECK(column[i] == left * 100 + i * 8 + 3);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void corners(void)
{
    int value = 1, flag;
    MPI_Status status;
    MPI_Request send, recv, other;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* Nobody. */
    MPI_Psend_init(&value, 2, 1, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_INFO_NULL, &recv);
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_REQUEST);
    MPI_Start(&send);
    MPI_Start(&recv);
    CHECK(class_of(MPI_Pready(2, send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(-1, send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(0, recv)) == MPI_ERR_REQUEST);
    CHECK(!MPI_Pready(0, send) && class_of(MPI_Pready(0, send)) == MPI_ERR_ARG);
    MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag && !MPI_Pready(1, send));
    CHECK(class_of(MPI_Parrived(recv, 1, &flag)) == MPI_ERR_ARG);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&recv, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    /* Arguments. */
    CHECK(class_of(MPI_Psend_init(&value, -1, 1, MPI_INT, right, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Psend_init(&value, 1, -1, MPI_INT, right, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Psend_init(&value, 1, 1, MPI_INT, size, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(&value, 1, 1, MPI_INT, left, MPI_ANY_TAG, comm, MPI_INFO_NULL, &other)) == MPI_ERR_TAG);
    /* Other kinds of requests have no partitions. */
    MPI_Send_init(&value, 1, MPI_INT, right, 1, comm, &other);
    CHECK(class_of(MPI_Pready(0, other)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(other, 0, &flag)) == MPI_ERR_REQUEST);
    MPI_Request_free(&other);
    /* One that was set up for nobody keeps nobody at the end. */
    MPI_Precv_init(&value, 1, 1, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    MPI_Request_free(&recv);
    /* No partitions, and no elements. */
    MPI_Psend_init(NULL, 0, 1, MPI_INT, right, 2, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(NULL, 3, 0, MPI_INT, left, 2, comm, MPI_INFO_NULL, &recv);
    MPI_Start(&recv);
    MPI_Start(&send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    /* Sides of different lengths. */
    MPI_Psend_init(&value, 1, 1, MPI_INT, right, 3, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(&flag, 2, 1, MPI_CHAR, left, 3, comm, MPI_INFO_NULL, &recv);
    MPI_Start(&recv);
    CHECK(class_of(MPI_Wait(&recv, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size, right = (rank + 1) % size;
    columns();
    corners();
    ring(argc > 1 ? atoi(argv[1]) : 50);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("partitioned: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
