/* A stencil whose loops run on OpenMP's threads.  openmp SIZE STEPS [GATE]
 *
 * With GATE the steps go on in silence until that file is there. */
#include "check.h"
#include <math.h>
#include <omp.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc >= 3 && given >= MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = atoi(argv[1]), steps = atoi(argv[2]), rows = n / size;
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double *now = calloc((size_t)(rows + 2) * n, sizeof *now), *next = calloc((size_t)(rows + 2) * n, sizeof *next);
    CHECK(now && next);
    omp_set_num_threads(4);
    for (int at = 0; at < n; at++)
        if (rank == 0)
            now[at] = next[at] = 1.0 + at % 7;
    for (int step = 1; step <= steps || is_closed(argv[3]); step++) {
        double change = 0, all;
        int threads = 0;
        MPI_Sendrecv(now + n, n, MPI_DOUBLE, up, 1, now + (rows + 1) * n, n, MPI_DOUBLE, down, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(now + rows * n, n, MPI_DOUBLE, down, 2, now, n, MPI_DOUBLE, up, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* The largest change does not depend on the order in which threads find it. */
#pragma omp parallel for schedule(dynamic, 4) reduction(max : change) reduction(max : threads)
        for (int row = 1; row <= rows; row++) {
            threads = omp_get_num_threads();
            for (int at = 1; at < n - 1; at++) {
                double *cell = now + row * n + at;
                double mean = (cell[-1] + cell[1] + cell[-n] + cell[n]) / 4;
                change = fmax(change, fabs(mean - *cell));
                next[row * n + at] = mean;
            }
        }
        CHECK(threads == 4);
        double *former = now;
        now = next;
        next = former;
        if (rank == 0)
            memcpy(now, next, n * sizeof *now);
        if (step % 100 == 0 && step <= steps) {
            MPI_Allreduce(&change, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            printf("step %d: %.17g\n", step, all);
        }
        if (step == steps) {
            double sum = 0;
            for (int at = n; at < (rows + 1) * n; at++)
                sum += now[at];
            printf("sum %.17g\n", sum);
        }
    }
    MPI_Finalize();
    return 0;
}
