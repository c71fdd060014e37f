/* Writes blocks of a mebibyte together until the disk is full: all ranks learn that.
 *
 *   fill FILE */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size, code = MPI_SUCCESS, steps = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1);
    char *block = calloc(1, 1 << 20);
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE,
                        MPI_INFO_NULL, &file) == MPI_SUCCESS);
    while (code == MPI_SUCCESS && steps < 100)
        code = MPI_File_write_at_all(file, (MPI_Offset)(steps++ * size + rank) << 20, block, 1 << 20, MPI_BYTE,
                                     MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_NO_SPACE);
    CHECK(class_of(MPI_File_preallocate(file, 1 << 30)) == MPI_ERR_NO_SPACE);
    /* The record of the cut needs room, too. */
    code = MPI_File_set_size(file, 0);
    CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_NO_SPACE);
    MPI_File_close(&file);
    free(block);
    if (rank == 0)
        printf("fill: no space on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
