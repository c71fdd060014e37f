/* Heat in a plate: a Jacobi iteration on a square grid, cut into bands of rows, one band per
 * rank, with halo exchange and a residual over all ranks.  Prints the residual now and then and
 * a checksum of the plate at the end; both are the same for any run with as many ranks.
 *
 *   jacobi [SIDE [STEPS [PACE [GATE [CLOCK]]]]]
 *
 * Step N ends at least N times PACE microseconds after the first, so a test knows how long it can
 * disturb the run, however fast the machine is.  The run does not end before the file GATE exists,
 * however slow the test is: it repeats the last step until then.  With any CLOCK, the pace is not
 * by the clock of MPI. */
#include "check.h"
#include <math.h>
#include <time.h>
#include <unistd.h>

static int rank, size, side, rows, steps, pace, own_clock;

static double *row(double *grid, int i)
{
    return grid + (size_t)i * side;
}

/* Rows 1..rows are mine; row 0 and rows + 1 are the neighbours' edges or the plate's rim. */
static void exchange(double *grid)
{
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    MPI_Request r[4];
    MPI_Irecv(row(grid, 0), side, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(row(grid, rows + 1), side, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(row(grid, 1), side, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(row(grid, rows), side, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}

static double relax(double *from, double *to)
{
    double change = 0;
    for (int i = 1; i <= rows; i++) {
        double *above = row(from, i - 1), *here = row(from, i), *below = row(from, i + 1);
        double *out = row(to, i);
        out[0] = here[0];
        out[side - 1] = here[side - 1];
        for (int j = 1; j < side - 1; j++) {
            out[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]);
            change += (out[j] - here[j]) * (out[j] - here[j]);
        }
    }
    return change;
}

static double checksum(double *grid)
{
    double mine = 0, all = 0;
    for (int i = 1; i <= rows; i++)
        for (int j = 0; j < side; j++)
            mine += row(grid, i)[j] * (1 + j % 7);
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

/* MPI_Wtime is an answer that a returned rank gets again, and on which others depend. */
static double seconds(void)
{
    struct timespec now;
    if (!own_clock)
        return MPI_Wtime();
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void keep_pace(double begun, int step)
{
    double early = begun + 1e-6 * pace * step - seconds();
    if (early > 0)
        usleep((useconds_t)(1e6 * early));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    side = argc > 1 ? atoi(argv[1]) : 512;
    steps = argc > 2 ? atoi(argv[2]) : 400;
    pace = argc > 3 ? atoi(argv[3]) : 0;
    own_clock = argc > 5;
    CHECK(side >= size && steps > 0 && pace >= 0);
    rows = side / size + (rank < side % size);
    double *now = calloc((size_t)(rows + 2) * side, sizeof *now);
    double *next = calloc((size_t)(rows + 2) * side, sizeof *next);
    CHECK(now && next);
    /* One hot edge. */
    for (int i = 0; i < rows + 2; i++)
        row(now, i)[0] = row(next, i)[0] = 100.0;

    char host[MPI_MAX_PROCESSOR_NAME];
    int len;
    MPI_Get_processor_name(host, &len);
    printf("rank %d of %d on %s: rows %d\n", rank, size, host, rows);

    double begun = seconds();
    for (int step = 1; step <= steps; step++) {
        exchange(now);
        double mine = relax(now, next), all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double *swap = now;
        now = next;
        next = swap;
        if (rank == 0 && (step % (steps / 4 > 0 ? steps / 4 : 1) == 0))
            printf("step %d: residual %.12e\n", step, sqrt(all));
        keep_pace(begun, step);
    }
    while (argc > 4 && is_closed(argv[4])) {
        exchange(now);
        relax(now, next);
        usleep(pace);
    }
    double sum = checksum(now);
    if (rank == 0)
        printf("checksum %.12e\n", sum);
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
