/* Neighbourhood collectives by the standard, on grids and graphs whose processes may be neighbours
 * more than once.
 *
 *   neighborhoods [ROUNDS]   each rank tells what it has seen every ten rounds */
#include "check.h"

enum { MOST = 64 };
static int rank, size;
static unsigned long long seen = 14695981039346656037ull;

/* What `from` sends to the neighbour at this place, in this round. */
static int value(int from, int place, int round)
{
    return (round * 100 + from) * 100 + place;
}

/* Exchanges blocks of two numbers in all ways. The block i comes from place at[i] of rank from[i],
 * or from nobody. */
static void exchange(MPI_Comm comm, int in, const int *from, const int *at, int out, int round)
{
    int send[2 * MOST], recv[2 * MOST], counts[MOST], places[MOST], one[2];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Request request[3];
    for (int i = 0; i < MOST; i++) {
        send[2 * i] = value(rank, i, round), send[2 * i + 1] = -value(rank, i, round);
        counts[i] = 2, places[i] = 2 * i, bytes[i] = 8 * i, types[i] = MPI_INT;
    }
    one[0] = send[0], one[1] = send[1];
    for (int way = 0; way < 9; way++) {
        memset(recv, 0, sizeof recv);
        int same = way == 3 || way == 4 || way == 8;
        switch (way) {
        case 0: MPI_Neighbor_alltoall(send, 2, MPI_INT, recv, 2, MPI_INT, comm); break;
        case 1: MPI_Neighbor_alltoallv(send, counts, places, MPI_INT, recv, counts, places, MPI_INT, comm); break;
        case 2: MPI_Neighbor_alltoallw(send, counts, bytes, types, recv, counts, bytes, types, comm); break;
        case 3: MPI_Neighbor_allgather(one, 2, MPI_INT, recv, 2, MPI_INT, comm); break;
        case 4: MPI_Neighbor_allgatherv(one, 2, MPI_INT, recv, counts, places, MPI_INT, comm); break;
        case 5: MPI_Ineighbor_alltoall(send, 2, MPI_INT, recv, 2, MPI_INT, comm, request); break;
        case 6: MPI_Ineighbor_alltoallw(send, counts, bytes, types, recv, counts, bytes, types, comm, request); break;
        case 7: MPI_Neighbor_alltoallv_init(send, counts, places, MPI_INT, recv, counts, places, MPI_INT, comm, MPI_INFO_NULL, request); break;
        case 8: MPI_Neighbor_allgather_init(one, 2, MPI_INT, recv, 2, MPI_INT, comm, MPI_INFO_NULL, request); break;
        }
        if (way >= 7)
            MPI_Start(request);
        if (way >= 5)
            MPI_Wait(request, MPI_STATUS_IGNORE);
        if (way >= 7)
            MPI_Request_free(request);
        for (int i = 0; i < in; i++) {
            int want = from[i] < 0 ? 0 : value(from[i], same ? 0 : at[i], round);
            CHECK(recv[2 * i] == want && recv[2 * i + 1] == -want);
            seen = (seen ^ (unsigned)recv[2 * i]) * 1099511628211ull;
        }
        for (int i = 2 * in; i < 2 * MOST; i++)
            CHECK(recv[i] == 0);
    }
    CHECK(out <= MOST);
}

/* A grid in which rings have one, two and more processes. */
static void grid(int ndims, const int *dims, const int *rings, int round)
{
    int count = 1, from[2 * MOST], at[2 * MOST];
    for (int i = 0; i < ndims; i++)
        count *= dims[i];
    if (count > size)
        return;
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, rings, 0, &comm);
    if (comm == MPI_COMM_NULL)
        return;
    for (int i = 0; i < ndims; i++) {
        MPI_Cart_shift(comm, i, 1, &from[2 * i], &from[2 * i + 1]);
        /* What the neighbour below has sent to the one above it comes from below. */
        at[2 * i] = 2 * i + 1, at[2 * i + 1] = 2 * i;
    }
    exchange(comm, 2 * ndims, from, at, 2 * ndims, round);
    MPI_Comm_free(&comm);
}

static void grids(int round)
{
    int even = size / 2;
    grid(1, (int[]){ size }, (int[]){ 1 }, round);
    grid(1, (int[]){ size }, (int[]){ 0 }, round);
    grid(1, (int[]){ 1 }, (int[]){ 1 }, round);
    grid(1, (int[]){ 2 }, (int[]){ 1 }, round);
    grid(1, (int[]){ 2 }, (int[]){ 0 }, round);
    grid(2, (int[]){ 2, 2 }, (int[]){ 1, 1 }, round);
    if (even)
        grid(3, (int[]){ 1, 2, even }, (int[]){ 1, 1, 0 }, round);
}

/* A distributed graph without weights. */
static MPI_Comm graph(int in, const int *from, int out, const int *to)
{
    /* The compiler takes a constant for an empty array. */
    int *volatile none = MPI_UNWEIGHTED;
    int *weights = none;
    MPI_Comm comm;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, from, weights, out, to, weights,
                                   MPI_INFO_NULL, 0, &comm);
    return comm;
}

/* Each process is a neighbour of all, of itself, and of the next one twice more. */
static void graphs(int round)
{
    int from[MOST + 2], to[MOST + 2], at[MOST + 2], next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    MPI_Comm comm;
    for (int i = 0; i < size; i++)
        from[i] = to[i] = i, at[i] = rank;
    to[size] = to[size + 1] = next;
    from[size] = from[size + 1] = before;
    at[size] = size, at[size + 1] = size + 1;
    comm = graph(size + 2, from, size + 2, to);
    exchange(comm, size + 2, from, at, size + 2, round);
    MPI_Comm_free(&comm);
    int index[MOST], *edges = malloc(sizeof(int) * size * size);
    CHECK(edges);
    for (int i = 0; i < size; i++) {
        index[i] = (i + 1) * size;
        for (int j = 0; j < size; j++)
            edges[i * size + j] = j;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm);
    exchange(comm, size, from, at, size, round);
    MPI_Comm_free(&comm);
    free(edges);
    int none = 0;
    comm = graph(0, &none, 0, &none);
    exchange(comm, 0, from, at, 0, round);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= MOST - 2);
    int rounds = argc > 1 ? atoi(argv[1]) : 3, x = 0;
    for (int round = 0; round < rounds; round++) {
        grids(round);
        graphs(round);
        if (argc > 1 && round % 10 == 9)
            printf("rank %d round %d %016llx\n", rank, round, seen);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Neighbor_allgather(&x, 1, MPI_INT, &x, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_TOPOLOGY);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("neighborhoods: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
