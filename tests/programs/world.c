/* Prints its identity: rank, size, application number, first argument. */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size, flag, *num;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &num, &flag);
    char app[16] = "none";
    if (flag)
        snprintf(app, sizeof app, "%d", *num);
    printf("%d of %d appnum %s %s\n", rank, size, app, argc > 1 ? argv[1] : "");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
