/* Writes other output in each run, with a checksum: each line has a number from the clock, and the
 * last line of each rank has their sum. So a reader can check that the output is that of the
 * process that ended.
 *
 * It does not end before the file GATE is there, if one is named. While it waits for that file,
 * there is a file GATE.waits.
 *
 * Only every EVERYth line has a number from the clock; the others are the same in each run.
 *
 *   divergent [STEPS [GATE [EVERY]]] */
#include "check.h"
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 500;
    int every = argc > 3 ? atoi(argv[3]) : 1;
    uint32_t sum = 0;
    for (int step = 0; step < steps; step++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        uint32_t number = step % every == 0 ? (uint32_t)now.tv_nsec : 0;
        sum = sum * 31 + number;
        printf("%d step %d %" PRIu32 "\n", rank, step, number);
        if (step % 8 == 0)
            fflush(stdout);
        usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 2 && rank == 0) {
        char waits[4096];
        snprintf(waits, sizeof waits, "%s.waits", argv[2]);
        fclose(fopen(waits, "w"));
    }
    for (int closed = argc > 2; closed;) {
        usleep(1000);
        if (rank == 0)
            closed = access(argv[2], F_OK) != 0;
        MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("%d sum %" PRIu32 "\n", rank, sum);
    MPI_Finalize();
    return 0;
}
