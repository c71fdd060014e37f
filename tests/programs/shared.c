/* Asks which ranks share memory before any message; then each rank sends to each. */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size, near, sum = 0;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    MPI_Comm_size(comm, &near);
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size, from = (rank + size - step) % size, got;
        MPI_Sendrecv(&rank, 1, MPI_INT, to, step, &got, 1, MPI_INT, from, step,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == from);
        sum += got;
    }
    CHECK(sum + rank == size * (size - 1) / 2);
    printf("%d: %d of %d share a host\n", rank, near, size);
    fflush(stdout);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
