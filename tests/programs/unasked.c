// Two threads of each rank call MPI at the same time, although the program asks for less
// (REJOIN_THREADS=multiple). argv[1] is the number of rounds.
#include "check.h"
#include <mpi.h>
#include <pthread.h>

static int rounds, rank, size;

static void *gathering(void *comm)
{
    int *all = malloc(sizeof(int) * size);
    for (int round = 0; round < rounds; round++) {
        int mine = rank + round;
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, *(MPI_Comm *)comm);
        for (int other = 0; other < size; other++)
            CHECK(all[other] == other + round);
    }
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    int provided, level;
    pthread_t second;
    MPI_Comm world = MPI_COMM_WORLD, first;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Query_thread(&level);
    CHECK(provided == MPI_THREAD_MULTIPLE && level == provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(world, &first);
    rounds = atoi(argv[1]);
    pthread_create(&second, 0, gathering, &world);
    gathering(&first);
    pthread_join(second, 0);
    MPI_Comm_free(&first);
    if (rank == 0)
        printf("%d rounds of two threads\n", rounds);
    MPI_Finalize();
    return 0;
}
