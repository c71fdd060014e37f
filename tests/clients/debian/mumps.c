/* Factors matrices of a heat equation on a cube with MUMPS, several times each, and solves with
 * each. MUMPS chooses at run time who helps whom, so the last digits differ from run to run. */
#include <math.h>
#include <mpi.h>
#include <dmumps_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { edge = 18, unknowns = edge * edge * edge, most = 7 * unknowns };

static MUMPS_INT rows[most], columns[most];
static double values[most], right[unknowns];

static void entry(MUMPS_INT8 *count, int row, int column, double value)
{
    rows[*count] = row + 1;
    columns[*count] = column + 1;
    values[(*count)++] = value;
}

/* With `shift` on the diagonal and `wind` along x; without wind the upper half is left out. */
static MUMPS_INT8 matrix(double shift, double wind)
{
    static const int steps[3] = {1, edge, edge * edge};
    MUMPS_INT8 count = 0;
    for (int row = 0; row < unknowns; row++) {
        entry(&count, row, row, 6 + shift);
        for (int axis = 0; axis < 3; axis++) {
            int place = row / steps[axis] % edge;
            if (place > 0)
                entry(&count, row, row - steps[axis], -1 - (axis ? 0 : wind));
            if (place < edge - 1 && wind != 0)
                entry(&count, row, row + steps[axis], -1 + (axis ? 0 : wind));
        }
    }
    return count;
}

static void checked(DMUMPS_STRUC_C *solver, int job)
{
    solver->job = job;
    dmumps_c(solver);
    if (solver->infog[0] < 0) {
        printf("job %d: error %d %d\n", job, solver->infog[0], solver->infog[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void solved(int symmetry, int rank, int times)
{
    DMUMPS_STRUC_C solver = {.par = 1, .sym = symmetry, .comm_fortran = -987654};
    checked(&solver, -1);
    for (int stream = 0; stream < 3; stream++)
        solver.icntl[stream] = -1;
    solver.icntl[3] = 0;
    solver.n = unknowns;
    solver.nnz = matrix(1, symmetry ? 0 : 0.5);
    solver.irn = rows;
    solver.jcn = columns;
    solver.a = values;
    solver.rhs = right;
    checked(&solver, 1);
    for (int time = 0; time < times; time++) {
        double sum = 0, largest = 0;
        matrix(1 + time, symmetry ? 0 : 0.5);
        for (int place = 0; place < unknowns; place++)
            right[place] = 1 + place % 7;
        checked(&solver, 5);
        for (int place = 0; place < unknowns; place++) {
            sum += right[place];
            largest = fmax(largest, fabs(right[place]));
        }
        if (rank == 0) {
            printf("symmetry %d time %d: sum %.8e largest %.8e\n", symmetry, time, sum, largest);
            fflush(stdout);
        }
    }
    checked(&solver, -2);
}

int main(int argc, char **argv)
{
    int rank, times = argc > 1 ? atoi(argv[1]) : 8;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int symmetry = 0; symmetry < 3; symmetry++)
        solved(symmetry, rank, times);
    MPI_Finalize();
    return 0;
}
