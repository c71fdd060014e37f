/* Threads that wait at the same time for different messages, and no other message can wake them.
 * Rank 0 has a thread that waits for a short message, which is sent last. Another thread waits for
 * a long body, or for the end of a blocking send.
 *
 *   sleepers [ROUNDS [BYTES]] */
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { SHORT = 1, LONG = 2, ANSWER = 3, BACK = 4 };

static int bytes;
static char *body;

static void *wait_for_the_last(void *unused)
{
    char word;
    (void)unused;
    MPI_Recv(&word, 1, MPI_CHAR, 1, SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* One round of rank 0: its first thread waits from the start, and makes progress for both. */
static void both(int round)
{
    pthread_t first;
    struct timespec nap = {0, 1000000};
    CHECK(pthread_create(&first, NULL, wait_for_the_last, NULL) == 0);
    /* The thread probably waits by then; the round is also valid if it does not. */
    nanosleep(&nap, NULL);
    MPI_Recv(body, bytes, MPI_CHAR, 1, LONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i += 4093)
        CHECK(body[i] == (char)(round + i));
    MPI_Send(body, bytes, MPI_CHAR, 1, BACK, MPI_COMM_WORLD);
    MPI_Send(&round, 1, MPI_INT, 1, ANSWER, MPI_COMM_WORLD);
    CHECK(pthread_join(first, NULL) == 0);
}

static void other(int round)
{
    int answer;
    for (int i = 0; i < bytes; i++)
        body[i] = (char)(round + i);
    MPI_Send(body, bytes, MPI_CHAR, 0, LONG, MPI_COMM_WORLD);
    MPI_Recv(body, bytes, MPI_CHAR, 0, BACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&answer, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(answer == round);
    MPI_Send("", 1, MPI_CHAR, 0, SHORT, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided, rank;
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    bytes = argc > 2 ? atoi(argv[2]) : 4 << 20;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    body = malloc(bytes);
    CHECK(body != NULL);
    for (int round = 0; round < rounds; round++)
        rank == 0 ? both(round) : other(round);
    free(body);
    MPI_Finalize();
    return 0;
}
