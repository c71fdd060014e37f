/* A program that registers its state and continues from it. Every ten milliseconds each rank
 * appends a line to a file that all hosts share: "NANOSECONDS RANK HOST".
 *
 * It does not end before the file GATE exists, however slow the test is.
 *
 * With `talk` each rank also prints a line for each step: one half before the step is stored and
 * one half after. Rank 0 first reads its standard input to the end, and prints its length at the
 * end.
 *
 * Each rank has a socket, so that its images are in memory only. With a fourth argument its first
 * image, in MPI_Init, is so, too: after the loss of a host, the registered state is all that there
 * is.
 *
 *   beside FILE STEPS GATE [talk|quiet] */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct {
    long step;
    double sum;
    bool half;
} state;

static int file, rank;
static char host[64];

static void act(int signal)
{
    struct timespec now;
    char line[128];
    (void)signal;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(line, sizeof line, "%lld %d %s\n", now.tv_sec * 1000000000LL + now.tv_nsec, rank, host);
    if (write(file, line, length) != length)
        _exit(8);
}

static void nap(void)
{
    struct timespec rest = {0, 5000000};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

static void rest_of_line(void)
{
    if (state.half)
        printf("of rank %d\n", rank), fflush(stdout);
    state.half = false;
}

int main(int argc, char **argv)
{
    int size;
    long steps = argc > 2 ? atol(argv[2]) : 100;
    if (MPIX_Register_region(1, &state, sizeof state) != MPI_SUCCESS)
        return 9;
    if (argc > 4 && socket(AF_INET, SOCK_DGRAM, 0) < 0)
        return 9;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1 && gethostname(host, sizeof host) == 0);
    file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0666);
    CHECK(file >= 0 && (argc > 4 || socket(AF_INET, SOCK_DGRAM, 0) >= 0));
    struct sigaction action = {.sa_handler = act, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 10000}, {0, 10000}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    bool talks = argc > 4 && strcmp(argv[4], "talk") == 0;
    long got = 0;
    while (talks && rank == 0 && getchar() != EOF)
        got++;
    MPI_Rejoin();
    /* Another process has told the first half. */
    rest_of_line();
    while (state.step < steps) {
        double mine = rank + state.step * 0.5, all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        state.sum = state.sum * 0.75 + all;
        state.step++;
        if (talks)
            printf("step %ld ", state.step), fflush(stdout);
        state.half = talks;
        CHECK(MPIX_Checkpoint() == MPI_SUCCESS);
        rest_of_line();
        nap();
    }
    while (argc > 3 && is_closed(argv[3]))
        nap();
    if (rank == 0)
        printf("%ld steps: %.17g, %ld bytes read\n", state.step, state.sum, got);
    MPI_Finalize();
    return 0;
}
