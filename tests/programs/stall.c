/* Waits forever, each rank in another call, or rank 1 in none: for tests of the reports. Needs 2
 * ranks.
 *
 *   stall [outside] */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    double x[4];
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1) {
        while (rank == 1)
            pause();
        memset(x, 0, sizeof x);
        MPI_Ssend(x, 4, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the halo");
    if (rank == 0)
        MPI_Recv(x, 4, MPI_DOUBLE, 1, 7, comm, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
