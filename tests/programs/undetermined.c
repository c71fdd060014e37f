/* Works until step 20, where rank 1 does something that a replay does not do again, or that ends
 * it.
 *
 *   undetermined KIND
 *
 * KIND: nothing; bytes, tag, length, call, more or fewer (what rank 1 sends depends on whether this
 * is a replay, as if it depended on the time of day); crash; endless (it waits for a message that
 * never comes, until somebody kills it); code (it ends with exit code 7). */
#include "check.h"
#include <signal.h>

enum { STEPS = 40, ODD = 20 };

/* A message of the rank to itself. */
static void to_itself(int rank)
{
    int value = 5;
    MPI_Sendrecv_replace(&value, 1, MPI_INT, rank, 1, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void odd_step(const char *kind, int rank, int to, int *value)
{
    int is_again = getenv("REJOIN_REPLAY") != NULL;
    int length = 1, tag = 0;
    if (!strcmp(kind, "bytes"))
        value[0] ^= is_again;
    if (!strcmp(kind, "tag"))
        tag = is_again;
    if (!strcmp(kind, "length"))
        length += is_again;
    if (!strcmp(kind, "crash"))
        raise(SIGSEGV);
    if (!strcmp(kind, "endless")) {
        printf("waiting\n");
        fflush(stdout);
        MPI_Recv(value, 1, MPI_INT, to, 12345, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(kind, is_again ? "more" : "fewer"))
        to_itself(rank);
    if (!strcmp(kind, "call") && is_again)
        MPI_Ssend(value, length, MPI_INT, to, tag, MPI_COMM_WORLD);
    else
        MPI_Send(value, length, MPI_INT, to, tag, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static int value[1000];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 2 && size > 1);
    for (int step = 0; step < STEPS; step++) {
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        MPI_Request request;
        MPI_Irecv(value + 1, 999, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        if (step == ODD && rank == 1)
            odd_step(argv[1], rank, to, value);
        else
            MPI_Send(value, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        value[0] = value[1] * 31 + step;
    }
    printf("rank %d: %d\n", rank, value[0]);
    MPI_Finalize();
    return rank == 1 && !strcmp(argv[1], "code") ? 7 : 0;
}
