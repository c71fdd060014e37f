/* Ranks that compute sums together until a file is there; then the last one calls MPI_Abort:
 *
 *   abort_at GATE CODE */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, is_there = 0;
    long all = 0;
    CHECK(argc == 3);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (!is_there) {
        long mine = rank;
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == (long)size * (size - 1) / 2);
        is_there = access(argv[1], F_OK) == 0;
        usleep(100);
        MPI_Bcast(&is_there, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    }
    if (rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    /* The others wait for a message that never comes. */
    MPI_Recv(&all, 1, MPI_LONG, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 1;
}
