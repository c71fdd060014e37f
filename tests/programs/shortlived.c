/* Threads that live for a part of a round each (MPI_THREAD_SERIALIZED).  shortlived ROUNDS
 *
 * Some are joined, some are detached. One of each round calls MPI while the others compute. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

enum { THREADS = 5 };

static int rank;
static uint64_t all;
static sem_t ended;

static uint64_t mix(uint64_t value)
{
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    return value ^ value >> 27;
}

static void *compute(void *arg)
{
    uint64_t *value = arg, first = *value;
    for (int step = 0; step < 20000; step++)
        *value = mix(*value + first);
    return arg;
}

static void *compute_detached(void *arg)
{
    compute(arg);
    sem_post(&ended);
    return NULL;
}

/* The only thread of its round that calls MPI. */
static void *talk(void *arg)
{
    uint64_t mine = *(uint64_t *)arg;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return arg;
}

int main(int argc, char **argv)
{
    int given;
    uint64_t sum = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &given);
    CHECK(argc == 2 && given >= MPI_THREAD_SERIALIZED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(sem_init(&ended, 0, 0) == 0);
    for (int round = 1; round <= atoi(argv[1]); round++) {
        pthread_t threads[THREADS], talker, detached;
        uint64_t values[THREADS + 1], mine = sum + rank;
        for (int i = 0; i <= THREADS; i++)
            values[i] = mix(sum + i);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, compute, &values[i]) == 0);
        CHECK(pthread_create(&detached, NULL, compute_detached, &values[THREADS]) == 0);
        CHECK(pthread_detach(detached) == 0);
        CHECK(pthread_create(&talker, NULL, talk, &mine) == 0);
        for (int i = 0; i < THREADS; i++) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0 && result == &values[i]);
            sum = mix(sum + values[i]);
        }
        CHECK(pthread_join(talker, NULL) == 0);
        while (sem_wait(&ended) != 0)
            CHECK(0);
        sum = mix(sum + values[THREADS] + all);
        if (round % 50 == 0)
            printf("round %d: %016llx\n", round, (unsigned long long)sum);
    }
    MPI_Finalize();
    return 0;
}
