/* MPI_THREAD_MULTIPLE: threads of two ranks talk pairwise, block in waits while others post,
 * and call collectives on communicators of their own. Their destructors call MPI, too.
 *
 *   threads [GATE]    again and again until GATE exists */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };
static int rank, size;
static MPI_Comm comms[THREADS];
static pthread_key_t last;

/* Runs when the thread's other variables are gone. */
static void at_end(void *arg)
{
    int me = (int)(long)arg - 1, partner = rank ^ 1;
    for (int i = 0; i < ROUNDS && partner < size; i++) {
        int in = -1, is_main = 1;
        MPI_Sendrecv(&i, 1, MPI_INT, partner, 200 + me, &in, 1, MPI_INT, partner, 200 + me,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Is_thread_main(&is_main);
        CHECK(in == i && !is_main);
    }
}

static void *work(void *arg)
{
    int me = (int)(long)arg, partner = rank ^ 1;
    char big[20000];
    CHECK(pthread_setspecific(last, (void *)(long)(me + 1)) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int out = me * 1000 + i, in = -1, sum = 0;
        MPI_Status s;
        MPI_Request r;
        if (partner < size) {
            MPI_Irecv(&in, 1, MPI_INT, partner, me, MPI_COMM_WORLD, &r);
            MPI_Send(&out, 1, MPI_INT, partner, me, MPI_COMM_WORLD);
            MPI_Wait(&r, &s);
            CHECK(in == me * 1000 + i && s.MPI_TAG == me);
            memset(big, i, sizeof big);
            MPI_Sendrecv_replace(big, sizeof big, MPI_BYTE, partner, 100 + me, partner, 100 + me,
                                 MPI_COMM_WORLD, &s);
            CHECK(big[0] == (char)i && big[sizeof big - 1] == (char)i);
        }
        if (i % 10 == 0) {
            MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, comms[me]);
            CHECK(sum == out * size);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, is_main = 0, level;
    pthread_t t[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    CHECK(level == provided && is_main);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    CHECK(pthread_key_create(&last, at_end) == 0);
    do {
        for (long i = 0; i < THREADS; i++)
            CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(t[i], NULL);
    } while (argc > 1 && is_closed(argv[1]));
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    if (rank == 0)
        printf("threads: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
