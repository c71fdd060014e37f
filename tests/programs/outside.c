/* A program that is mostly outside MPI: it sleeps, polls, allocates, loads libraries, writes files,
 * and must see neither an interrupted call nor a child that is not its own.
 *
 *   outside [ROUNDS [FILE prefix]] */
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Each of these sleeps about 10 ms, and says so when it was cut short. */
static void sleeps(int which)
{
    struct timespec ten = { 0, 10000000 }, until;
    struct timeval tv = { 0, 10000 };
    sigset_t none;
    sem_t sem;
    double start = now();
    switch (which % 6) {
    case 0:
        CHECK(nanosleep(&ten, NULL) == 0);
        break;
    case 1:
        CHECK(usleep(10000) == 0);
        break;
    case 2:
        CHECK(poll(NULL, 0, 10) == 0);
        break;
    case 3:
        CHECK(select(0, NULL, NULL, NULL, &tv) == 0);
        break;
    case 4:
        sem_init(&sem, 0, 0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 10000000;
        if (until.tv_nsec >= 1000000000)
            until.tv_sec++, until.tv_nsec -= 1000000000;
        CHECK(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
        return; /* An absolute time passes while nobody lives. */
    default:
        sigemptyset(&none);
        sigaddset(&none, SIGUSR2);
        CHECK(sigtimedwait(&none, NULL, &ten) == -1 && errno == EAGAIN);
    }
    CHECK(now() - start >= 0.0099);
}

static unsigned long long heap(unsigned long long s)
{
    void *held[64] = { 0 };
    for (int k = 0; k < 20000; k++) {
        int j = (s >> 3) % 64;
        free(held[j]);
        held[j] = malloc(16 + (s >> 20) % 4000);
        memset(held[j], (int)s, 16);
        s = s * 6364136223846793005ull + ((unsigned char *)held[j])[3];
    }
    for (int j = 0; j < 64; j++)
        free(held[j]);
    return s;
}

/* What a program that watches its own memory does, with a file that stays open. */
static void watches_itself(void)
{
    static int status = -1;
    long pid, shown;
    if (status < 0)
        status = open("/proc/self/status", O_RDONLY);
    CHECK(status >= 0);
    do { /* Again if the rank has come back meanwhile, with another number. */
        pid = number_in_proc();
        shown = number_in_status(status);
    } while (pid != number_in_proc());
    CHECK(shown == pid);
}

static double library(int round)
{
    void *m = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    CHECK(m);
    double (*f)(double) = (double (*)(double))dlsym(m, round % 2 ? "sin" : "cbrt");
    CHECK(f);
    double x = f(round + 0.5);
    dlclose(m);
    return x;
}

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 50;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *log = NULL;
    char name[4096];
    if (argc > 2) {
        snprintf(name, sizeof name, "%s.%d", argv[2], rank);
        log = fopen(name, "w");
        CHECK(log);
    }
    unsigned long long s = rank + 1;
    double x = 0;
    for (int round = 1; round <= rounds; round++) {
        sleeps(round + rank);
        s = heap(s);
        x += library(round);
        watches_itself();
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        printf("rank %d round %d %016llx %a\n", rank, round, s, x);
        if (log)
            fprintf(log, "round %d %016llx\n", round, s);
        if (round % 10 == 0) {
            unsigned long long all;
            MPI_Allreduce(&s, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, MPI_COMM_WORLD);
            s ^= all >> 7;
        }
    }
    if (log)
        fclose(log);
    MPI_Finalize();
    return 0;
}
