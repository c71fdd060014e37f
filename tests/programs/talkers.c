/* Threads that all call MPI (MPI_THREAD_MULTIPLE).  talkers ROUNDS [GATE]
 *
 * Each thread passes messages around the ring of ranks, joins collectives on a communicator of its
 * own, and sends to the next thread of its own rank. With GATE the rounds go on in silence until
 * that file is there. */
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

enum { THREADS = 4, LONGEST = 3000 };

static int rank, size, rounds, closed;
static const char *gate;
static MPI_Comm comms[THREADS];
static pthread_barrier_t together;

static uint64_t mix(uint64_t value)
{
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    return value ^ value >> 27;
}

/* All threads of all ranks learn the same. */
static void look_for_gate(int me)
{
    if (me == 0) {
        closed = gate && access(gate, F_OK) != 0;
        MPI_Bcast(&closed, 1, MPI_INT, 0, comms[me]);
    }
    pthread_barrier_wait(&together);
}

static void *talk(void *arg)
{
    int me = (int)(long)arg, next = (rank + 1) % size, last = (rank + size - 1) % size;
    static const int lengths[] = { 1, 20, 700, LONGEST };
    uint64_t out[LONGEST], in[LONGEST], sum = me, all, from;
    for (int round = 1; round <= rounds || closed; round++) {
        int len = lengths[(round + me) % 4], got;
        MPI_Status status;
        MPI_Request request;
        for (int at = 0; at < len; at++)
            out[at] = mix(sum + at);
        MPI_Irecv(in, LONGEST, MPI_UINT64_T, last, me, comms[me], &request);
        MPI_Send(out, len, MPI_UINT64_T, next, me, comms[me]);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &got);
        CHECK(got == len);
        for (int at = 0; at < len; at++)
            sum = mix(sum ^ in[at]);
        MPI_Isend(&sum, 1, MPI_UINT64_T, rank, 100 + (me + 1) % THREADS, MPI_COMM_WORLD, &request);
        MPI_Recv(&from, 1, MPI_UINT64_T, rank, 100 + me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum = mix(sum + 3 * from);
        if (round % 5 == 0) {
            MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, comms[me]);
            sum += mix(all);
        }
        if (round % 50 == 0 && round <= rounds)
            printf("thread %d, round %d: %016llx\n", me, round, (unsigned long long)sum);
        if (round % 20 == me)
            usleep(500);
        if (round % 25 == 0) {
            pthread_barrier_wait(&together);
            if (gate)
                look_for_gate(me);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int given;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    CHECK(argc >= 2 && given == MPI_THREAD_MULTIPLE);
    rounds = atoi(argv[1]);
    gate = argv[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (long i = 1; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, talk, (void *)i) == 0);
    talk(NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
