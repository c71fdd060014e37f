/* Conjugate gradients on the five-point Laplacian of a square grid, cut into bands of rows.
 * Every dot product is an allreduce, so each step depends on every rank.  Prints the residual
 * bit by bit: any two runs with as many ranks print the same.
 *
 *   cg [SIDE [STEPS [EVERY [PACE [GATE]]]]]
 *
 * Step N ends at least N times PACE microseconds after the first.  The run does not end before the
 * file GATE exists: it repeats the last product until then. */
#include "check.h"
#include <math.h>
#include <unistd.h>

static int rank, size, side, rows;

static double dot(const double *a, const double *b)
{
    double mine = 0, all = 0;
    for (long i = 0; i < (long)rows * side; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* out = A p; `edge` holds a row above and a row below. */
static void apply(const double *p, double *out, double *edge)
{
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    memset(edge, 0, 2 * (size_t)side * sizeof *edge);
    MPI_Sendrecv(p, side, MPI_DOUBLE, up, 1, edge + side, side, MPI_DOUBLE, down, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(p + (size_t)(rows - 1) * side, side, MPI_DOUBLE, down, 2, edge, side, MPI_DOUBLE,
                 up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < side; j++) {
            const double *here = p + (size_t)i * side;
            double above = i > 0 ? here[j - side] : edge[j];
            double below = i + 1 < rows ? here[j + side] : edge[side + j];
            double left = j > 0 ? here[j - 1] : 0, right = j + 1 < side ? here[j + 1] : 0;
            out[(size_t)i * side + j] = 4 * here[j] - above - below - left - right;
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    side = argc > 1 ? atoi(argv[1]) : 256;
    int steps = argc > 2 ? atoi(argv[2]) : 400;
    int every = argc > 3 ? atoi(argv[3]) : 50;
    int pace = argc > 4 ? atoi(argv[4]) : 0;
    CHECK(side >= size && steps > 0 && every > 0 && pace >= 0);
    rows = side / size + (rank < side % size);
    size_t n = (size_t)rows * side;
    double *x = calloc(n, 8), *r = malloc(n * 8), *p = malloc(n * 8), *q = malloc(n * 8);
    double *edge = malloc(2 * (size_t)side * 8);
    CHECK(x && r && p && q && edge);
    for (size_t i = 0; i < n; i++)
        r[i] = p[i] = 1.0 + (double)((i * 7 + rank) % 13);
    double rr = dot(r, r), begun = MPI_Wtime();
    for (int step = 1; step <= steps; step++) {
        apply(p, q, edge);
        double alpha = rr / dot(p, q);
        for (size_t i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double next = dot(r, r);
        for (size_t i = 0; i < n; i++)
            p[i] = r[i] + next / rr * p[i];
        rr = next;
        if (step % every == 0)
            printf("rank %d step %d residual %a x %a\n", rank, step, sqrt(rr), x[n / 2]);
        double early = begun + 1e-6 * pace * step - MPI_Wtime();
        if (early > 0)
            usleep((useconds_t)(1e6 * early));
    }
    while (argc > 5 && is_closed(argv[5])) {
        apply(p, q, edge);
        usleep(pace);
    }
    printf("rank %d done %a\n", rank, dot(x, x));
    free(x), free(r), free(p), free(q), free(edge);
    MPI_Finalize();
    return 0;
}
