/* Measures how long a move delays the rank that moves and the ranks that stay. The last rank moves:
 * it modifies so many percent of its memory per second, and sends itself a message in each step.
 * The other ranks add up a number among themselves all the time. Each rank records the steps that
 * took more than a millisecond: begin and end, in nanoseconds of the monotonic clock, and whether
 * the process is a new one. The program ends when FILE.end exists, or after so many seconds.
 * tests/examples/migrate.rs moves the last rank and reads the file.
 *
 *   migrant MB PERCENT SECONDS FILE */
#include "check.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void record(const char *file, int rank, long long from, long long to, int is_new)
{
    char text[96];
    int n = snprintf(text, sizeof text, "gap %d %lld %lld %d\n", rank, from, to, is_new);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK(write(fd, text, n) == n);
    close(fd);
}

int main(int argc, char **argv)
{
    int rank, size, over = 0;
    MPI_Init(&argc, &argv);
    CHECK(argc > 4);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int moves = rank == size - 1;
    MPI_Comm others;
    MPI_Comm_split(MPI_COMM_WORLD, moves, rank, &others);
    size_t bytes = (size_t)atol(argv[1]) << 20, at = 0;
    double percent = atof(argv[2]), seconds = atof(argv[3]);
    char *memory = malloc(bytes), end[4096];
    snprintf(end, sizeof end, "%s.end", argv[4]);
    CHECK(memory);
    /* No two pages are the same. */
    for (size_t i = 0; i < bytes; i += 8)
        *(unsigned long long *)(memory + i) = (i + rank) * 0x9e3779b97f4a7c15ull;
    MPI_Barrier(MPI_COMM_WORLD);
    pid_t process = getpid();
    long long begun = now(), last = begun, written = 0;
    while (!over) {
        int mine = now() - begun > seconds * 1e9 || !access(end, F_OK);
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, others);
        long long t = now();
        if (t - last > 1000000)
            record(argv[4], rank, last, t, getpid() != process);
        process = getpid();
        last = t;
        long long due = (t - begun) * 1e-9 * percent / 100 * bytes;
        /* After a pause it does not write all at once what it has not written. */
        if (due - written > (4 << 20))
            written = due - (4 << 20);
        for (; written < due; written += PAGE, at += PAGE)
            memory[at % bytes]++;
        struct timespec pause = { 0, 500000 };
        nanosleep(&pause, NULL);
    }
    MPI_Comm_free(&others);
    MPI_Finalize();
    return 0;
}
