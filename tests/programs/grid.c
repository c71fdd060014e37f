/* A grid of 2 by half of the ranks, with and without other ranks for the processes: rank 0 tells
 * how many pairs of neighbours are on different hosts. */
#include "check.h"

static int world, size;

/* The number of this process's host: the lowest rank there. */
static int own_host(void)
{
    int lowest;
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Allreduce(&world, &lowest, 1, MPI_INT, MPI_MIN, host);
    MPI_Comm_free(&host);
    return lowest;
}

static int apart(int reorder)
{
    int dims[] = { 2, size / 2 }, rings[] = { 0, 0 }, rank, mapped, mine[3], theirs[3], count = 0, sum;
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, rings, reorder, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_map(MPI_COMM_WORLD, 2, dims, rings, &mapped);
    CHECK(rank == (reorder ? mapped : world));
    MPI_Cart_coords(grid, rank, 2, mine);
    CHECK(mine[0] * dims[1] + mine[1] == rank);
    mine[2] = own_host();
    for (int dimension = 0; dimension < 2; dimension++) {
        int below, above;
        MPI_Cart_shift(grid, dimension, 1, &below, &above);
        theirs[2] = mine[2];
        MPI_Sendrecv(mine, 3, MPI_INT, above, 1, theirs, 3, MPI_INT, below, 1, grid, MPI_STATUS_IGNORE);
        if (below == MPI_PROC_NULL)
            continue;
        for (int i = 0; i < 2; i++)
            CHECK(theirs[i] == mine[i] - (i == dimension));
        count += theirs[2] != mine[2];
    }
    MPI_Allreduce(&count, &sum, 1, MPI_INT, MPI_SUM, grid);
    MPI_Comm_free(&grid);
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size % 2 == 0);
    int kept = apart(0), moved = apart(1);
    if (world == 0)
        printf("%d pairs of neighbours apart, %d with other ranks\n", kept, moved);
    MPI_Finalize();
    return 0;
}
