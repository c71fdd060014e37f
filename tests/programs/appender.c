/* In each step all ranks write one block each, behind those of the step before, together: in every
 * second step in order of ranks, otherwise at offsets.  The blocks depend on all steps before.  The
 * output has a sum of what a rank has read in the end, and FILE.RANK has all of that.
 *
 *   appender STEPS FILE */
#include "check.h"

enum { BLOCK = 96 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 2);
    int steps = atoi(argv[1]);
    unsigned state = 17 * rank + 1, all = 0, block[BLOCK];
    MPI_File file;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                        &file) == MPI_SUCCESS);
    MPI_File_set_view(file, 0, MPI_UNSIGNED, MPI_UNSIGNED, "native", MPI_INFO_NULL);
    /* A rollback to here comes before the first use of the shared pointer. */
    MPIX_Checkpoint();
    for (int step = 0; step < steps; step++) {
        MPI_Offset at = (MPI_Offset)(step * size + rank) * BLOCK;
        int n, code;
        for (int i = 0; i < BLOCK; i++)
            block[i] = next_random(&state) ^ all;
        MPI_Allreduce(block, &all, 1, MPI_UNSIGNED, MPI_BXOR, MPI_COMM_WORLD);
        code = step % 2 ? MPI_File_write_ordered(file, block, BLOCK, MPI_UNSIGNED, &status)
                        : MPI_File_write_at_all(file, at, block, BLOCK, MPI_UNSIGNED, &status);
        CHECK(code == MPI_SUCCESS);
        if (step % 2 == 0)
            MPI_File_seek_shared(file, BLOCK * size, MPI_SEEK_CUR);
        MPI_Get_count(&status, MPI_UNSIGNED, &n);
        CHECK(n == BLOCK);
        if (step % 100 == 0)
            printf("rank %d is at step %d: %u\n", rank, step, all), fflush(stdout);
    }
    MPI_Offset length;
    MPI_File_get_size(file, &length);
    MPI_Offset want = (MPI_Offset)steps * size * BLOCK * (MPI_Offset)sizeof *block;
    if (length != want)
        fprintf(stderr, "rank %d: the file has %lld bytes, not %lld\n", rank, (long long)length,
                (long long)want);
    CHECK(length == want);
    unsigned sum = 0;
    char name[512];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    FILE *copy = fopen(name, "w");
    CHECK(copy);
    for (int step = 0; step < steps; step++) {
        MPI_File_read_at_all(file, (MPI_Offset)(step * size + (rank + 1) % size) * BLOCK, block, BLOCK,
                             MPI_UNSIGNED, &status);
        for (int i = 0; i < BLOCK; i++)
            sum = 31 * sum + block[i];
        CHECK(fwrite(block, sizeof block, 1, copy) == 1);
    }
    CHECK(fclose(copy) == 0);
    MPI_File_close(&file);
    printf("rank %d has read %u\n", rank, sum);
    MPI_Finalize();
    return 0;
}
