/* Where a rank can be when it is killed: moments PHASE
 *   init (rank 0 never calls it)|collective|rendezvous|small|finalize (rank 0 never calls it)
 * Every rank prints its number and pid before MPI_Init, and works until it is killed. */
#include "check.h"
#include <unistd.h>

enum { LARGE = 1 << 20 };

static void collectives(int size)
{
    static double in[1000], out[1000];
    int *table = calloc(2 * size, sizeof *table);
    CHECK(table);
    for (;;) {
        MPI_Allreduce(in, out, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Alltoall(table, 1, MPI_INT, table + size, 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Bcast(in, 1000, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
}

static void ring(int rank, int size, int count)
{
    char *out = calloc(count, 1), *in = calloc(count, 1);
    CHECK(out && in);
    for (;;) {
        MPI_Request r[2];
        MPI_Irecv(in, count, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, count, MPI_BYTE, (rank + 1) % size, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    CHECK(argc > 1);
    const char *number = getenv("REJOIN_RANK"), *phase = argv[1];
    CHECK(number);
    printf("rank %s pid %d\n", number, (int)getpid());
    fflush(stdout);
    while (!strcmp(phase, "init") && atoi(number) == 0)
        pause();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(phase, "collective"))
        collectives(size);
    if (!strcmp(phase, "rendezvous"))
        ring(rank, size, 4 * LARGE);
    if (!strcmp(phase, "small"))
        ring(rank, size, 8);
    while (!strcmp(phase, "finalize") && rank == 0)
        pause();
    MPI_Finalize();
    return 1;
}
