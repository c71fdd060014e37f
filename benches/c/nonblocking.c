/* A nonblocking collective, completed at once, beside the blocking one in the same process, in
 * turns. Rank 0 prints "name<TAB>bytes<TAB>ratio" of the medians' times of the slowest rank.
 *
 *   nonblocking NAME BYTES ITERS  with NAME allreduce, bcast, alltoall, allgather, reduce or barrier */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "session.h"

#define ROUNDS 11

static int rank, size;
static char *in, *out;

/* Calls it, and returns the request of a nonblocking call. */
static MPI_Request call(const char *name, int n, int blocks)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    if (!strcmp(name, "allreduce"))
        blocks ? MPI_Allreduce(in, out, n / 8, MPI_DOUBLE, MPI_SUM, world)
               : MPI_Iallreduce(in, out, n / 8, MPI_DOUBLE, MPI_SUM, world, &r);
    else if (!strcmp(name, "bcast"))
        blocks ? MPI_Bcast(in, n, MPI_CHAR, 0, world) : MPI_Ibcast(in, n, MPI_CHAR, 0, world, &r);
    else if (!strcmp(name, "alltoall"))
        blocks ? MPI_Alltoall(in, n, MPI_CHAR, out, n, MPI_CHAR, world)
               : MPI_Ialltoall(in, n, MPI_CHAR, out, n, MPI_CHAR, world, &r);
    else if (!strcmp(name, "allgather"))
        blocks ? MPI_Allgather(in, n, MPI_CHAR, out, n, MPI_CHAR, world)
               : MPI_Iallgather(in, n, MPI_CHAR, out, n, MPI_CHAR, world, &r);
    else if (!strcmp(name, "reduce"))
        blocks ? MPI_Reduce(in, out, n / 8, MPI_DOUBLE, MPI_SUM, 0, world)
               : MPI_Ireduce(in, out, n / 8, MPI_DOUBLE, MPI_SUM, 0, world, &r);
    else if (!strcmp(name, "barrier"))
        blocks ? MPI_Barrier(world) : MPI_Ibarrier(world, &r);
    else
        MPI_Abort(world, 2);
    return r;
}

static double seconds(const char *name, int n, int iters, int blocks)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < iters; i++) {
        MPI_Request request = call(name, n, blocks);
        if (!blocks)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    double mine = MPI_Wtime() - start, worst;
    MPI_Allreduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    own_session();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int n = atoi(argv[2]), iters = atoi(argv[3]);
    in = calloc(size, n + 1);
    out = calloc(size, n + 1);
    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 2);
    double ratios[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        int first = round & 1;
        double times[2];
        times[first] = seconds(argv[1], n, iters, first);
        times[!first] = seconds(argv[1], n, iters, !first);
        if (round >= 0)
            ratios[round] = times[0] / times[1];
    }
    qsort(ratios, ROUNDS, sizeof *ratios, by_value);
    if (rank == 0)
        printf("%s\t%d\t%.4f\n", argv[1], n, ratios[ROUNDS / 2]);
    MPI_Finalize();
    return 0;
}
