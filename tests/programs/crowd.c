/* Many ranks that mostly sleep: each blocks in MPI until the others have come as far.
 *
 *   crowd ROUNDS GATE
 *
 * In each round a rank exchanges a number with two others, at another distance each time. Before
 * the second half of the rounds all wait until the file GATE is there. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, go = 0;
    long exchanged = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3);
    int rounds = atoi(argv[1]);
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 2) {
            while (rank == 0 && access(argv[2], F_OK) != 0)
                usleep(20000);
            MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        int far = 1 + (round * 37) % (size - 1);
        int to = (rank + far) % size, from = (rank + size - far) % size;
        long out = 1000L * round + rank, in = -1;
        MPI_Sendrecv(&out, 1, MPI_LONG, to, round, &in, 1, MPI_LONG, from, round,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(in == 1000L * round + from);
        exchanged++;
    }
    MPI_Reduce(&exchanged, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks have exchanged %ld numbers\n", size, all);
    MPI_Finalize();
    return 0;
}
