/* Threads that work for the one that calls MPI (MPI_THREAD_FUNNELED).  pool ROUNDS [GATE]
 *
 * In each round the first thread gives the workers pieces of a sum, through mutexes of every kind
 * and condition variables. One worker blocks all signals, and another thread only sleeps. With GATE
 * the rounds go on in silence until that file is there. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, PIECES = 24, KINDS = 5 };

static int rank, size;
static pthread_mutex_t kinds[KINDS];
/* Protects what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begin = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int next_piece = PIECES, finished, round_number;
/* Two numbers for each kind, which are equal when its mutex is free. */
static uint64_t sums[KINDS][2];
static _Thread_local uint64_t own;

static uint64_t mix(uint64_t value)
{
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    return value ^ value >> 27;
}

static void make_mutexes(void)
{
    static const int types[KINDS] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                      PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_NORMAL };
    for (int kind = 0; kind < KINDS; kind++) {
        pthread_mutexattr_t how;
        pthread_mutexattr_init(&how);
        CHECK(pthread_mutexattr_settype(&how, types[kind]) == 0);
        if (kind == 4)
            CHECK(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
        CHECK(pthread_mutex_init(&kinds[kind], &how) == 0);
    }
}

/* Adds a piece to the sum of a kind, with its mutex held for a while. */
static void add(int kind, uint64_t value)
{
    pthread_mutex_t *mutex = &kinds[kind];
    CHECK(pthread_mutex_lock(mutex) == 0);
    if (kind == 1)
        CHECK(pthread_mutex_lock(mutex) == 0);
    if (kind == 2)
        CHECK(pthread_mutex_lock(mutex) == EDEADLK);
    CHECK(sums[kind][0] == sums[kind][1]);
    sums[kind][0] += value;
    for (int step = 0; step < 2000; step++)
        own = mix(own + step);
    sums[kind][1] += value;
    if (kind == 1)
        CHECK(pthread_mutex_unlock(mutex) == 0);
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void *work(void *arg)
{
    long me = (long)arg;
    char name[16], now[16];
    if (me == 0) {
        sigset_t every;
        sigfillset(&every);
        CHECK(pthread_sigmask(SIG_SETMASK, &every, NULL) == 0);
    }
    snprintf(name, sizeof name, "worker %ld", me);
    CHECK(pthread_setname_np(pthread_self(), name) == 0);
    uint64_t mine = own = me;
    for (;;) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        while (next_piece >= PIECES)
            CHECK(pthread_cond_wait(&begin, &lock) == 0);
        int piece = next_piece++, round = round_number;
        CHECK(pthread_mutex_unlock(&lock) == 0);
        CHECK(own == mine);
        add((piece + round) % KINDS, mix((uint64_t)rank << 40 ^ (uint64_t)round << 8 ^ piece));
        mine = own;
        CHECK(pthread_mutex_lock(&lock) == 0);
        if (++finished == PIECES)
            CHECK(pthread_cond_signal(&done) == 0);
        CHECK(pthread_mutex_unlock(&lock) == 0);
        CHECK(pthread_getname_np(pthread_self(), now, sizeof now) == 0 && strcmp(now, name) == 0);
    }
    return NULL;
}

static void *doze(void *arg)
{
    CHECK(pthread_setname_np(pthread_self(), "sleeper") == 0);
    for (;;) {
        struct timespec start, end, pause = { 0, 5000000 };
        clock_gettime(CLOCK_MONOTONIC, &start);
        CHECK(nanosleep(&pause, NULL) == 0);
        clock_gettime(CLOCK_MONOTONIC, &end);
        CHECK((end.tv_sec - start.tv_sec) * 1000000000ll + end.tv_nsec - start.tv_nsec >= 5000000);
    }
    return arg;
}

/* Has the workers add up a round. */
static void add_up(int round)
{
    CHECK(pthread_mutex_lock(&lock) == 0);
    round_number = round;
    next_piece = finished = 0;
    CHECK(pthread_cond_broadcast(&begin) == 0);
    while (finished < PIECES)
        CHECK(pthread_cond_wait(&done, &lock) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

int main(int argc, char **argv)
{
    int given, rounds;
    pthread_t thread;
    uint64_t all = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc >= 2 && given >= MPI_THREAD_FUNNELED);
    rounds = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_mutexes();
    for (long i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0 && pthread_detach(thread) == 0);
    CHECK(pthread_create(&thread, NULL, doze, NULL) == 0);
    for (int round = 1; round <= rounds || is_closed(argv[2]); round++) {
        uint64_t mine = 0;
        add_up(round);
        for (int kind = 0; kind < KINDS; kind++)
            mine = mix(mine + sums[kind][0]);
        mine += all;
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (round % 50 == 0 && round <= rounds)
            printf("round %d: %016llx\n", round, (unsigned long long)all);
    }
    MPI_Finalize();
    return 0;
}
