/* A program that registers its state, stores it at a call, and continues from it when it is started
 * again. Rank 0 prints its first step; with LAST it stops after that step, as if the machine were
 * lost.
 *
 * A step takes at least PACE microseconds. The run does not end before the file GATE exists: after
 * the last step it repeatedly stores its state until then.
 *
 *   regions STEPS [LAST [PACE [GATE]]] */
#include "check.h"
#include <unistd.h>

enum { CELLS = 300000 };

static struct {
    long step;
    double cells[CELLS];
} state;

static void store(int rank)
{
    int stored = MPIX_Checkpoint();
    if (stored != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(stored, text, &length);
        fprintf(stderr, "rank %d: no checkpoint: %s\n", rank, text);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    long steps = argc > 1 ? atol(argv[1]) : 10, last = argc > 2 ? atol(argv[2]) : -1;
    int pace = argc > 3 ? atoi(argv[3]) : 0;
    static char small[10];

    /* Before MPI_Init and wrong arguments. */
    if (MPIX_Register_region(1, &state, sizeof state) != MPI_SUCCESS)
        return 9;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(class_of(MPIX_Register_region(1, small, sizeof small)) == MPI_ERR_ARG);
    CHECK(class_of(MPIX_Register_region(-1, small, sizeof small)) == MPI_ERR_ARG);
    CHECK(class_of(MPIX_Register_region(2, NULL, 1)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPIX_Register_region(2, small, -1)) == MPI_ERR_COUNT);
    CHECK(MPIX_Register_region(2, small, sizeof small) == MPI_SUCCESS);
    CHECK(MPIX_Unregister_region(2) == MPI_SUCCESS);
    CHECK(class_of(MPIX_Unregister_region(2)) == MPI_ERR_ARG);
    CHECK(MPIX_Register_region(7, small, sizeof small) == MPI_SUCCESS);

    int code = rank % 2 ? MPIX_Rejoin() : MPI_Rejoin();
    if (code != MPI_SUCCESS) {
        CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE);
        for (int i = 0; i < CELLS; i++)
            state.cells[i] = rank + i * 0.25;
        memset(small, 'a', sizeof small);
    }
    if (rank == 0)
        printf("from step %ld\n", state.step), fflush(stdout);
    while (state.step < steps) {
        double edge = 0;
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        MPI_Sendrecv(&state.cells[CELLS - 1], 1, MPI_DOUBLE, next, 0, &edge, 1, MPI_DOUBLE, before, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = CELLS - 1; i > 0; i--)
            state.cells[i] = 0.5 * state.cells[i] + 0.5 * state.cells[i - 1];
        state.cells[0] = 0.5 * state.cells[0] + 0.5 * edge;
        state.step++;
        usleep(pace);
        small[state.step % 10]++;
        store(rank);
        if (state.step == last) {
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
    }
    while (argc > 4 && is_closed(argv[4])) {
        usleep(pace);
        store(rank);
    }
    double sum = 0, all = 0;
    for (int i = 0; i < CELLS; i++)
        sum += state.cells[i] * (i % 7 + 1);
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld steps: %.17g %.10s\n", state.step, all, small);
    MPI_Finalize();
    return 0;
}
