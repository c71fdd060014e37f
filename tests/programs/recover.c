/* Measures how long a recovery delays the program. Ranks add up a number all the time and modify a
 * part of their memory. Each rank records the exchanges that took more than a millisecond: begin
 * and end, in nanoseconds of the monotonic clock, and whether the process is a new one. The file is
 * closed in between, so no rollback cuts it. The program ends when FILE.end exists, or after so
 * many seconds. tests/examples/recover.rs kills ranks and reads the file.
 *
 *   recover MB SECONDS FILE */
#include "check.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int rank, size, sum[2] = { 0, 0 };
    MPI_Init(&argc, &argv);
    CHECK(argc > 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t bytes = (size_t)atol(argv[1]) << 20, at = 0;
    double seconds = atof(argv[2]);
    char *memory = malloc(bytes), text[96], end[4096];
    snprintf(end, sizeof end, "%s.end", argv[3]);
    pid_t process = getpid();
    CHECK(memory);
    memset(memory, rank + 1, bytes);
    long long begun = now(), last = begun;
    while (!sum[1]) {
        int mine[2] = { 1, now() - begun > seconds * 1e9 || !access(end, F_OK) };
        MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum[0] == size);
        long long t = now();
        if (t - last > 1000000) {
            int n = snprintf(text, sizeof text, "gap %d %lld %lld %d\n", rank, last, t, getpid() != process);
            process = getpid();
            int fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600);
            CHECK(write(fd, text, n) == n);
            close(fd);
        }
        last = t;
        for (int i = 0; i < 16; i++, at += 4096)
            memory[at % bytes]++;
        struct timespec pause = { 0, 200000 };
        nanosleep(&pause, NULL);
    }
    MPI_Finalize();
    return 0;
}
