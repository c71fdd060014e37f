/* A program that registers its state. It stores the state every ten steps. When the job is started
 * again, it continues from the newest stored state.
 *
 *   mpicc -o regions regions.c
 *   mpirun -n 4 --images DIR ./regions 30              stops at step 30
 *   mpirun -n 4 --images DIR --restart ./regions 50    continues from step 30 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    long step;
    double value;
} state;

int main(int argc, char **argv)
{
    int rank;
    long last = argc > 1 ? atol(argv[1]) : 30;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPIX_Register_region(1, &state, sizeof state);
    if (MPI_Rejoin() == MPI_SUCCESS && rank == 0)
        printf("continuing after step %ld\n", state.step);

    while (state.step < last) {
        double sum, own = state.value + rank + 1;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        state.value = sum / 2;
        state.step++;
        if (state.step % 10 == 0 && MPIX_Checkpoint() != MPI_SUCCESS && rank == 0)
            fprintf(stderr, "step %ld was not stored\n", state.step);
        if (state.step == last && rank == 0)
            printf("step %ld: %.6e\n", state.step, state.value);
    }
    MPI_Finalize();
    return 0;
}
