/* Ranks write a mebibyte each to a file, and then write the same place again: what is there first
 * is recorded.  Says what became of it.  With USER, the file is opened as this user.
 *
 *   overwrite FILE [USER] */
#include "check.h"

static int size;

static void end(const char *what, int rank)
{
    if (rank == 0)
        printf("overwrite: %s on %d ranks\n", what, size);
    MPI_Finalize();
    exit(0);
}

int main(int argc, char **argv)
{
    int rank, code;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1);
    char *block = calloc(1, 1 << 20), all[64];
    /* From here on all ranks have links, which another user might not get. */
    MPI_Alltoall(block, 1, MPI_CHAR, all, 1, MPI_CHAR, MPI_COMM_WORLD);
    if (argc > 2)
        CHECK(seteuid(atoi(argv[2])) == 0);
    code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (argc > 2)
        CHECK(seteuid(getuid()) == 0);
    if (class_of(code) == MPI_ERR_ACCESS)
        end("no access", rank);
    CHECK(code == MPI_SUCCESS);
    /* The first time nothing is there. */
    for (int time = 0; time < 2; time++) {
        if (time == 1) {
            CHECK(MPI_File_close(&file) == MPI_SUCCESS);
            CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
        }
        code = MPI_File_write_at_all(file, (MPI_Offset)rank << 20, block, 1 << 20, MPI_BYTE, MPI_STATUS_IGNORE);
        if (class_of(code) == MPI_ERR_NO_SPACE)
            break;
        CHECK(code == MPI_SUCCESS);
    }
    MPI_File_close(&file);
    free(block);
    end(code == MPI_SUCCESS ? "written" : "no room for records", rank);
}
