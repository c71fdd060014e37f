/* A number travels around a ring of ranks; each rank adds its own. Rank 0 prints the sum of each
 * round.
 *
 *   mpicc -o ring ring.c && mpirun -n 4 ./ring [ROUNDS [MICROSECONDS]]
 *
 * MICROSECONDS is how long a rank computes before it passes the number on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    int pause = argc > 2 ? atoi(argv[2]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 1; round <= rounds; round++) {
        long sum = (long)round * 1000;
        int next = (rank + 1) % size, previous = (rank + size - 1) % size;
        if (rank > 0)
            MPI_Recv(&sum, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += rank;
        usleep(pause);
        MPI_Send(&sum, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Recv(&sum, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("round %d: %ld\n", round, sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
