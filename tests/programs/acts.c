/* A program in which two processes of one rank that act at once can be seen. Every few milliseconds
 * each rank appends a line to a file that all hosts share: "NANOSECONDS RANK HOST". It opens the
 * file each time, so its images have no open file.
 *
 * It does not end before the file GATE exists, and checks the sum of each step.
 *
 *   acts FILE GATE */
#include "check.h"
#include <fcntl.h>
#include <time.h>

static const char *path;
static int rank;

static void act(void)
{
    struct timespec now;
    char line[128], host[64];
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0 || gethostname(host, sizeof host) != 0)
        _exit(7);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(line, sizeof line, "%lld %d %s\n", now.tv_sec * 1000000000LL + now.tv_nsec, rank, host);
    if (write(file, line, length) != length)
        _exit(8);
    close(file);
}

static void nap(void)
{
    struct timespec rest = {0, 2000000};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 2);
    path = argv[1];
    for (long step = 0; is_closed(argv[2]); step++) {
        double mine = (double)rank * step, all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == (double)step * size * (size - 1) / 2);
        act();
        nap();
    }
    if (rank == 0)
        printf("every sum was right\n");
    MPI_Finalize();
    return 0;
}
