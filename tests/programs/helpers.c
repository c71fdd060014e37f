/* A program that has other programs do a part of its work:  helpers WAY ROUNDS GATE
 *   short   in each round by system(), popen() or fork()
 *   long    by one that runs until the end
 * After ROUNDS it continues in silence until GATE is there. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank;

static void pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

static int by_popen(int round)
{
    char command[64];
    int got = -1;
    snprintf(command, sizeof command, "sleep 0.005; echo %d", round * 3);
    FILE *lines = popen(command, "r");
    CHECK(lines && fscanf(lines, "%d", &got) == 1);
    CHECK(pclose(lines) == 0);
    return got;
}

static int by_fork(int round)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pause_ms(5);
        _exit(round % 100);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int by_helper(int round)
{
    switch (round % 3) {
    case 0:
        CHECK(system("sleep 0.005") == 0);
        return 1;
    case 1:
        return by_popen(round);
    default:
        return by_fork(round);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(argc > 3);
    int is_long = !strcmp(argv[1], "long"), rounds = atoi(argv[2]);
    pid_t helper = 0;
    if (is_long && (helper = fork()) == 0) {
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    unsigned long long sum = rank;
    for (int round = 1, more = 1; round <= rounds || more; round++) {
        unsigned long long mine = sum + (is_long ? round : by_helper(round));
        MPI_Allreduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (round <= rounds && round % 10 == 0) {
            printf("round %d %llu\n", round, sum);
            fflush(stdout);
        }
        more = rank == 0 && access(argv[3], F_OK) != 0;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        pause_ms(1);
    }
    if (helper > 0) {
        CHECK(kill(helper, SIGKILL) == 0);
        CHECK(waitpid(helper, NULL, 0) == helper);
    }
    MPI_Finalize();
    return 0;
}
