/* What a call costs, printed as "name<TAB>bytes<TAB>value" by rank 0: nanoseconds.
 *
 *   calls lat  ITERS  one-way latency of 8 bytes between ranks 0 and 1
 *   calls self ITERS  a call of MPI_Irecv, MPI_Isend and MPI_Waitall with the rank itself
 *   calls rank ITERS  MPI_Comm_rank
 *
 * It knows nothing of the library it runs on. calls.f90 is the same in Fortran. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "session.h"

static int rank;

static void latency(int iters, double *start)
{
    double mine = rank, theirs = -1;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            *start = MPI_Wtime();
        if (rank == 0)
            MPI_Send(&mine, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        if (rank < 2)
            MPI_Recv(&theirs, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&mine, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    }
    if (rank < 2 && theirs != 1 - rank)
        MPI_Abort(MPI_COMM_WORLD, 2);
}

static void self(int iters, double *start)
{
    double mine = 0, theirs = -1;
    MPI_Request requests[2];
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            *start = MPI_Wtime();
        mine = i;
        MPI_Irecv(&theirs, 1, MPI_DOUBLE, rank, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&mine, 1, MPI_DOUBLE, rank, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (theirs != i)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void ask(int iters, double *start)
{
    int own = -1, sum = 0;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            *start = MPI_Wtime();
        MPI_Comm_rank(MPI_COMM_WORLD, &own);
        sum += own;
    }
    if (own != rank)
        MPI_Abort(MPI_COMM_WORLD, 2 + sum);
}

int main(int argc, char **argv)
{
    own_session();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *what = argc > 2 ? argv[1] : "";
    int iters = argc > 2 ? atoi(argv[2]) : 0;
    double start = 0, parts = 1;
    if (!strcmp(what, "lat")) {
        latency(iters, &start);
        parts = 2;
    } else if (!strcmp(what, "self")) {
        self(iters, &start);
        parts = 3;
    } else if (!strcmp(what, "rank")) {
        ask(iters, &start);
    } else {
        fprintf(stderr, "calls: no such measurement\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        printf("%s\t8\t%.3f\n", what, (MPI_Wtime() - start) / iters / parts * 1e9);
    MPI_Finalize();
    return 0;
}
