/* Threads that leave the library before the link of their message is established rely on the
 * thread that leaves last. Rank 1 starts the trials, one with each of the ranks behind it.
 *
 * In a trial a thread of rank 0 waits for rank 1. Then the main thread sends to the receiver, to
 * which there is no link yet, and returns at once. The receiver computes until the other thread has
 * left, too. It must get the message though both threads of rank 0 compute for long. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { FIRST = 2, PAUSE = 2, MILLI = 1000 };

static void *leave_last(void *tag)
{
    int in;
    MPI_Recv(&in, 1, MPI_INT, 1, (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sleep(PAUSE);
    return NULL;
}

static void await_start(void)
{
    MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_between(int receiver)
{
    pthread_t last;
    await_start();
    CHECK(pthread_create(&last, NULL, leave_last, (void *)(long)receiver) == 0);
    usleep(20 * MILLI);
    MPI_Send(&receiver, 1, MPI_INT, receiver, receiver, MPI_COMM_WORLD);
    sleep(PAUSE);
    pthread_join(last, NULL);
}

static void start(int receiver)
{
    MPI_Send(NULL, 0, MPI_INT, receiver, 0, MPI_COMM_WORLD);
    MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    usleep(50 * MILLI);
    MPI_Send(&receiver, 1, MPI_INT, 0, receiver, MPI_COMM_WORLD);
}

/* Whether the message came while rank 0 computed. */
static int receive(int rank)
{
    int in;
    await_start();
    usleep(80 * MILLI);
    double begun = MPI_Wtime();
    MPI_Recv(&in, 1, MPI_INT, 0, rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == rank);
    return MPI_Wtime() - begun < PAUSE / 2.0;
}

int main(int argc, char **argv)
{
    int provided, rank, size, early = 0, all = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE && size > FIRST);
    if (rank >= FIRST)
        early = receive(rank);
    for (int receiver = FIRST; receiver < size && rank < FIRST; receiver++) {
        if (rank == 0)
            send_between(receiver);
        else
            start(receiver);
    }
    MPI_Reduce(&early, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d of %d came in time\n", all, size - FIRST);
    MPI_Finalize();
    return 0;
}
