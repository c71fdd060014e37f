/* Ranks that map files in ways of their own, until GATE exists.
 *
 *   slices apart GATE    each rank a page of GATE.slices, which is there already; the first page and
 *                        what lies behind the last rank's belong to nobody
 *   slices hosts GATE    the ranks of a host a file of its /dev/shm
 *   slices unlink GATE   all ranks a file of /dev/shm, whose name the first one removes at the gate
 *   slices late GATE     so, but the last rank opens the file to read it, and maps it then */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, PART = 4 << 20 };

static int rank, size;
static const char *gate;

static void *map(int fd, off_t at, size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    CHECK(memory != MAP_FAILED && close(fd) == 0);
    return memory;
}

static const char *path_in_memory(void)
{
    static char path[400];
    int at = snprintf(path, sizeof path, "/dev/shm/rejoin-unlinked");
    for (const char *c = gate; *c && at < 300; c++)
        path[at++] = *c == '/' ? '_' : *c;
    path[at] = 0;
    return path;
}

/* The first rank makes the file of these ranks, the others open it. */
static int open_common(MPI_Comm ranks, const char *path, off_t length)
{
    int me, fd = -1;
    MPI_Comm_rank(ranks, &me);
    if (me == 0) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, length) == 0);
    }
    MPI_Barrier(ranks);
    if (me != 0)
        fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    return fd;
}

/* Whether the gate is closed, as the first rank sees it. */
static int goes_on(void)
{
    int on = access(gate, F_OK) != 0;
    MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return on;
}

static void apart(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.slices", gate);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    uint64_t *mine = map(fd, (off_t)PAGE * (1 + rank), PAGE), round = 0, sum = 0;
    memset(mine, 0, PAGE);
    do {
        round++;
        for (int i = 0; i < 100; i++)
            mine[i] += round + (uint64_t)rank;
        sum += round + (uint64_t)rank;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 100; i++)
            CHECK(mine[i] == sum);
    } while (goes_on());
    CHECK(msync(mine, PAGE, MS_SYNC) == 0);
    printf("rank %d: slice %llu\n", rank, (unsigned long long)sum);
    CHECK(munmap(mine, PAGE) == 0);
}

static void hosts(void)
{
    MPI_Comm here;
    int count;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &count);
    const char *path = "/dev/shm/rejoin-slices";
    _Atomic uint64_t *common = map(open_common(here, path, PAGE), 0, PAGE);
    uint64_t expected = 0, round = 0;
    do {
        round++;
        atomic_fetch_add(common, round);
        expected += round * (uint64_t)count;
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(atomic_load(common) == expected);
        /* Nobody adds before all have looked. */
        MPI_Barrier(MPI_COMM_WORLD);
    } while (goes_on());
    printf("rank %d: all sums were right\n", rank);
    CHECK(munmap((void *)common, PAGE) == 0);
    MPI_Barrier(here);
    unlink(path);
}

/* Writes the part of this rank; the first one also does so for the last, where that only reads. */
static void fill(unsigned char *common, int last_reads, int value, size_t bytes)
{
    for (int r = 0; r < size; r++)
        if (r == rank ? r != size - 1 || !last_reads : rank == 0 && r == size - 1 && last_reads)
            memset(common + (size_t)PART * (size_t)r, value ? value : r + 1, bytes);
}

static void unlinked(int last_reads)
{
    const char *path = path_in_memory();
    size_t length = (size_t)PART * (size_t)size;
    int fd = open_common(MPI_COMM_WORLD, path, (off_t)length);
    int is_late = last_reads && rank == size - 1;
    unsigned char *common = NULL;
    if (is_late) {
        CHECK(close(fd) == 0);
        fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
    } else {
        common = map(fd, 0, length);
        fill(common, last_reads, 0, PART);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        while (access(gate, F_OK) != 0)
            usleep(500);
        CHECK(unlink(path) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_late) {
        common = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(common != MAP_FAILED && close(fd) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < length; i++)
        CHECK(common[i] == i / PART + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Where it is one memory, all see this. */
    fill(common, last_reads, 200, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        CHECK(common[(size_t)PART * (size_t)r] == 200);
    printf("rank %d: all sums were right\n", rank);
    CHECK(munmap(common, length) == 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3);
    gate = argv[2];
    if (!strcmp(argv[1], "apart"))
        apart();
    else if (!strcmp(argv[1], "hosts"))
        hosts();
    else
        unlinked(!strcmp(argv[1], "late"));
    MPI_Finalize();
    return 0;
}
