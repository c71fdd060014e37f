/* A rank whose first thread blocks all signals and calls nothing of MPI for long.
 *
 * deaf alone|beside|all GATE
 *
 * After a first call, the first thread computes until GATE is there: alone, beside two threads that
 * take signals, or beside two threads that block all signals, too. The file GATE.begun says that it
 * does. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static volatile uint64_t steps;

static void *doze(void *arg)
{
    for (;;) {
        usleep(1000);
        steps++;
    }
    return arg;
}

static void begin_threads(void)
{
    pthread_t thread;
    for (int at = 0; at < 2; at++)
        CHECK(pthread_create(&thread, NULL, doze, NULL) == 0);
}

static void say_begun(const char *gate)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.begun", gate);
    FILE *file = fopen(name, "w");
    CHECK(file && fclose(file) == 0);
}

int main(int argc, char **argv)
{
    int given, rank, size;
    uint64_t sum = 1, all = 0;
    sigset_t every, now;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc == 3 && given >= MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(argv[1], "beside") == 0)
        begin_threads();
    sigfillset(&every);
    CHECK(pthread_sigmask(SIG_SETMASK, &every, NULL) == 0);
    if (strcmp(argv[1], "all") == 0)
        begin_threads();
    /* A checkpoint is requested meanwhile, so the call takes an image that finds the threads. */
    for (double begin = MPI_Wtime(); MPI_Wtime() < begin + 0.3;)
        usleep(1000);
    MPI_Barrier(MPI_COMM_WORLD);
    say_begun(argv[2]);
    do {
        uint64_t value = 1;
        for (int step = 0; step < 1000000; step++)
            value = value * 6364136223846793005ull + 1442695040888963407ull;
        sum = value;
    } while (access(argv[2], F_OK) != 0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %016llx\n", (unsigned long long)(all / size));
    MPI_Finalize();
    return 0;
}
