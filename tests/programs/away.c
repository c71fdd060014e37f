/* Rank 0 sends messages of all lengths to rank 1, and then computes without MPI until a file is
 * there.  Rank 1 receives them, and makes another file when it has all.  So rank 1, if it is lost
 * then, comes back while the sender of what it had received computes.  With a third word, rank 1
 * first sends more than that to rank 0, which so has the first turn with a checkpoint.
 *
 *   away GATE RECEIVED [more] */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { MESSAGES = 60, LONGEST = 1 << 20 };

static int length_of(int number)
{
    return number % 10 == 9 ? LONGEST : number % 3 ? 8 : 20000;
}

/* Rank 1 sends the longest messages to rank 0. */
static void send_more(int rank, char *body)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (rank == 0) {
            MPI_Recv(body, LONGEST, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(body[0] == (char)i && body[LONGEST - 1] == (char)i);
            continue;
        }
        memset(body, i, LONGEST);
        MPI_Send(body, LONGEST, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK((argc == 3 || argc == 4) && size == 2);
    char *body = malloc(LONGEST);
    if (argc == 4)
        send_more(rank, body);
    for (int i = 0; i < MESSAGES; i++) {
        int length = length_of(i);
        if (rank == 0) {
            memset(body, i + 1, length);
            MPI_Send(body, length, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            continue;
        }
        MPI_Recv(body, length, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < length; at++)
            CHECK(body[at] == (char)(i + 1));
    }
    if (rank == 1) {
        int file = open(argv[2], O_CREAT | O_WRONLY, 0600);
        CHECK(file >= 0);
        close(file);
    }
    /* What the other rank sends from here on comes when it has been there. */
    double sum = 0;
    while (access(argv[1], F_OK))
        for (int i = 0; i < 100000; i++)
            sum += i;
    CHECK(sum >= 0);
    MPI_Barrier(MPI_COMM_WORLD);
    free(body);
    MPI_Finalize();
    return 0;
}
