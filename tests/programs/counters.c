/* Each rank computes from a file of its own that it overwrites:  counters WAY [ROUNDS] PATH
 *   small    a counter in a small file: read, add, write back in place
 *   large    the same in a file that is too large to be copied
 *   growing  a large file that is written at its end only, and read from its beginning
 *   renamed  a new file in each round, which then takes the place of the one before
 * The files are PATH.RANK. After ROUNDS (600) they go on in silence until PATH itself is there. */
#include "check.h"
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define LARGE (24 << 20)
#define BLOCK 4096

static int rank;
static char path[4096], fresh[4200];
static uint64_t block[BLOCK / 8];

static void fill(uint64_t value)
{
    for (int i = 0; i < BLOCK / 8; i++)
        block[i] = value * 0x9e3779b97f4a7c15u + i;
    block[0] = value;
}

static void put_block(int fd, off_t at)
{
    CHECK(pwrite(fd, block, BLOCK, at) == BLOCK);
}

/* A file with so many bytes and 1 in its first word. */
static int make(const char *name, size_t bytes)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (size_t at = 0; at < bytes; at += BLOCK) {
        fill(at ? at : 1);
        put_block(fd, at);
    }
    return fd;
}

static uint64_t first_word(int fd)
{
    uint64_t word;
    CHECK(pread(fd, &word, sizeof word, 0) == sizeof word);
    return word;
}

/* All ranks take part, so no rank is far ahead of another; and time passes. */
static uint64_t sum_of(uint64_t mine)
{
    struct timespec ms = { 0, 1000000 };
    uint64_t all;
    nanosleep(&ms, NULL);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static uint64_t in_place(int fd, int round)
{
    uint64_t word = first_word(fd);
    fill(word * 3 + sum_of(word) + round);
    put_block(fd, 0);
    /* What lies behind it now is of this round only. */
    fill(word);
    put_block(fd, BLOCK * (off_t)(1 + round % 3));
    return word;
}

static uint64_t growing(int fd, int round)
{
    uint64_t word = first_word(fd);
    fill(sum_of(word + round));
    CHECK(write(fd, block, BLOCK) == BLOCK);
    return block[0];
}

static uint64_t renamed(int round)
{
    int old = open(path, O_RDONLY);
    CHECK(old >= 0);
    uint64_t word = first_word(old);
    close(old);
    int fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    fill(sum_of(round) + round);
    CHECK(write(fd, block, BLOCK) == BLOCK);
    sum_of(0);
    sum_of(0);
    CHECK(write(fd, block, BLOCK) == BLOCK);
    CHECK(first_word(fd) == block[0]);
    /* An image between a close and the rename would not see the file. */
    CHECK(rename(fresh, path) == 0);
    close(fd);
    return word ? block[0] : 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(argc > 2);
    const char *way = argv[1], *gate = argv[argc - 1];
    int rounds = argc > 3 ? atoi(argv[2]) : 600, is_renamed = !strcmp(way, "renamed"), is_growing = !strcmp(way, "growing");
    snprintf(path, sizeof path, "%s.%d", gate, rank);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int fd = make(path, !strcmp(way, "small") || is_renamed ? 4 * BLOCK : LARGE);
    CHECK(lseek(fd, 0, SEEK_END) > 0);
    if (is_renamed)
        close(fd);
    uint64_t last = 0;
    for (int round = 1, more = 1; round <= rounds || more; round++) {
        last = is_renamed ? renamed(round) : is_growing ? growing(fd, round) : in_place(fd, round);
        if (round <= rounds && round % 20 == 0) {
            printf("rank %d round %d %016" PRIx64 "\n", rank, round, last);
            fflush(stdout);
        }
        more = rank == 0 && access(gate, F_OK) != 0;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
