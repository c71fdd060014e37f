/* Nonblocking collectives of several steps are under way while the program exchanges messages.  How
 * far they are by then depends on when their messages come.
 *
 *   long_collectives [ROUNDS [NUMBERS]] */
#include "check.h"

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10, count = argc > 2 ? atoi(argv[2]) : 40000;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long *own = malloc(count * sizeof *own), *sums = malloc(count * sizeof *sums);
    long *told = malloc(count * sizeof *told);
    unsigned long digest = 0;
    for (int round = 0; round < rounds; round++) {
        MPI_Request requests[2];
        for (int i = 0; i < count; i++) {
            own[i] = (long)i * (rank + 1) + round;
            told[i] = rank == round % size ? own[i] : -1;
        }
        MPI_Iallreduce(own, sums, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        MPI_Ibcast(told, count, MPI_LONG, round % size, MPI_COMM_WORLD, &requests[1]);
        unsigned long out = digest + round, into = -1;
        MPI_Sendrecv(&out, 1, MPI_UNSIGNED_LONG, (rank + 1) % size, round, &into, 1, MPI_UNSIGNED_LONG,
                     (rank + size - 1) % size, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(into == out);
        if (round % 2) {
            int index;
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
            MPI_Sendrecv(&out, 1, MPI_UNSIGNED_LONG, (rank + 1) % size, round, &into, 1, MPI_UNSIGNED_LONG,
                         (rank + size - 1) % size, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++) {
            CHECK(sums[i] == (long)i * size * (size + 1) / 2 + (long)round * size);
            CHECK(told[i] == (long)i * (round % size + 1) + round);
        }
        digest = digest * 31 + sums[count - 1];
    }
    if (rank == 0)
        printf("%d rounds, digest %lu\n", rounds, digest);
    MPI_Finalize();
    return 0;
}
