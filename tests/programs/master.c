/* A master hands out tasks and takes results from whoever answers first (wildcards, probes).
 * Who does what differs from run to run; the answer does not.
 *
 *   master [TASKS [WORK]] */
#include "check.h"

enum { TASK = 1, RESULT, STOP };

static unsigned long long task(unsigned long long seed, int work)
{
    for (int i = 0; i < work; i++)
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed;
}

static void master(int size, int tasks, int work)
{
    unsigned long long sum = 0;
    int given = 0, taken = 0;
    unsigned char *seen = calloc(tasks, 1);
    CHECK(seen);
    for (int to = 1; to < size; to++) {
        if (given < tasks) {
            MPI_Send(&given, 1, MPI_INT, to, TASK, MPI_COMM_WORLD);
            given++;
        } else {
            MPI_Send(&given, 0, MPI_INT, to, STOP, MPI_COMM_WORLD);
        }
    }
    while (taken < tasks) {
        MPI_Status st;
        unsigned long long result[2];
        if (taken % 3 == 0) {
            int there = 0;
            while (!there)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &st);
            MPI_Recv(result, 2, MPI_UNSIGNED_LONG_LONG, st.MPI_SOURCE, st.MPI_TAG, MPI_COMM_WORLD,
                     &st);
        } else {
            MPI_Recv(result, 2, MPI_UNSIGNED_LONG_LONG, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD,
                     &st);
        }
        CHECK(result[0] < (unsigned long long)tasks && !seen[result[0]]);
        CHECK(result[1] == task(result[0] + 1, work));
        seen[result[0]] = 1;
        sum += result[1];
        taken++;
        if (taken % (tasks / 10 > 0 ? tasks / 10 : 1) == 0)
            printf("%d results\n", taken);
        int more = given < tasks;
        MPI_Send(&given, more, MPI_INT, st.MPI_SOURCE, more ? TASK : STOP, MPI_COMM_WORLD);
        given += more;
    }
    printf("sum %016llx\n", sum);
    free(seen);
}

static void worker(int work)
{
    for (;;) {
        MPI_Status st;
        int number;
        MPI_Recv(&number, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
        if (st.MPI_TAG == STOP)
            return;
        unsigned long long result[2] = { number, task(number + 1ull, work) };
        MPI_Send(result, 2, MPI_UNSIGNED_LONG_LONG, 0, RESULT, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int tasks = argc > 1 ? atoi(argv[1]) : 1000, work = argc > 2 ? atoi(argv[2]) : 100000;
    CHECK(size > 1 && tasks > 0 && work > 0);
    if (rank == 0)
        master(size, tasks, work);
    else
        worker(work);
    MPI_Finalize();
    return 0;
}
