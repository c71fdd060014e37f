/* Ranks change a file in place: what each writes depends on what it has read there. A block belongs
 * to another rank in each step. The file also grows, is cut, and is closed and opened again.
 *
 *   inplace STEPS PATH    the file is PATH.data; PATH.RANK has what a rank has read in the end
 *   inplace gated PATH    400 steps, then further ones in silence until PATH itself is there */
#include "check.h"

enum { WORDS = 96, BYTES = 4 * WORDS, LAP = 16 };

static int rank, size;
static char path[4096];
static MPI_File file;
static unsigned block[WORDS], state;

static void open_file(void)
{
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
          MPI_SUCCESS);
    MPI_File_set_view(file, 0, MPI_UNSIGNED, MPI_UNSIGNED, "native", MPI_INFO_NULL);
}

/* Nobody reads or writes a block before all ranks have done with it. */
static unsigned meet(unsigned mine)
{
    unsigned all;
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void put(int together, int place)
{
    MPI_Offset at = (MPI_Offset)place * WORDS;
    int code = together ? MPI_File_write_at_all(file, at, block, WORDS, MPI_UNSIGNED, MPI_STATUS_IGNORE)
                        : MPI_File_write_at(file, at, block, WORDS, MPI_UNSIGNED, MPI_STATUS_IGNORE);
    CHECK(code == MPI_SUCCESS);
}

static void get(int together, int place)
{
    MPI_Offset at = (MPI_Offset)place * WORDS;
    MPI_Status status;
    int count, code = together ? MPI_File_read_at_all(file, at, block, WORDS, MPI_UNSIGNED, &status)
                               : MPI_File_read_at(file, at, block, WORDS, MPI_UNSIGNED, &status);
    CHECK(code == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_UNSIGNED, &count);
    CHECK(count == WORDS);
}

/* After the blocks of all ranks come as many for each step since the file was cut. */
static unsigned step_of(int step)
{
    MPI_Offset length;
    int lap = step % LAP;
    get(step % 2, (rank + step) % size);
    for (int i = 0; i < WORDS; i++)
        block[i] = block[i] * 31 + next_random(&state) + i;
    put(step % 3, (rank + step) % size);
    unsigned all = meet(block[WORDS - 1]);
    MPI_File_get_size(file, &length);
    CHECK(length == (MPI_Offset)(1 + lap) * size * BYTES);
    meet(0);
    put(step % 5, (1 + lap) * size + rank);
    if (lap == LAP - 1)
        CHECK(MPI_File_set_size(file, (MPI_Offset)size * BYTES) == MPI_SUCCESS);
    if (step % 50 == 49) {
        CHECK(MPI_File_close(&file) == MPI_SUCCESS);
        open_file();
    }
    meet(0);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 2);
    int gated = !strcmp(argv[1], "gated"), steps = gated ? 400 : atoi(argv[1]), step = 0;
    snprintf(path, sizeof path, "%s.data", argv[2]);
    if (rank == 0)
        unlink(path);
    meet(0);
    open_file();
    state = 17 * rank + 1;
    for (int i = 0; i < WORDS; i++)
        block[i] = next_random(&state);
    put(1, rank);
    meet(0);
    for (; step < steps; step++) {
        unsigned all = step_of(step);
        if (step % 50 == 0)
            printf("rank %d is at step %d: %u\n", rank, step, all), fflush(stdout);
    }
    get(1, (rank + 1) % size);
    char name[4200];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    FILE *copy = fopen(name, "w");
    CHECK(copy && fwrite(block, sizeof block, 1, copy) == 1 && fclose(copy) == 0);
    while (gated && is_closed(argv[2]))
        step_of(step++);
    MPI_File_close(&file);
    printf("rank %d has read %u\n", rank, block[0] * !gated);
    MPI_Finalize();
    return 0;
}
