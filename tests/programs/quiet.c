/* Ranks that exchange nothing until a file exists, and then add up their numbers.
 *
 *   quiet FILE */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (access(argv[1], F_OK) != 0)
        usleep(10000);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    if (rank == 0)
        printf("the numbers of %d ranks: %d\n", size, sum);
    MPI_Finalize();
    return 0;
}
