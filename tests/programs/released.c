/* A sender continues when its message is received, also while the receiver then computes and calls
 * no MPI function for long.  The sender makes a file, and the receiver waits for that file. */
#include "check.h"
#include <time.h>

enum { PROBED, MATCHED, BEHIND, TESTED, WAYS };

static char *name_of(int round)
{
    static char name[64];
    snprintf(name, sizeof name, "/tmp/released-%d-%d", (int)getppid(), round);
    return name;
}

static void receive(char *body, int len, int way)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    int found = 0;
    switch (way) {
    case PROBED:
        while (!found)
            MPI_Iprobe(0, 1, MPI_COMM_WORLD, &found, &status);
        MPI_Recv(body, len, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
        break;
    case MATCHED:
        MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(body, len, MPI_CHAR, &message, &status);
        break;
    case BEHIND:
        MPI_Irecv(body, len, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        break;
    default:
        MPI_Probe(0, 1, MPI_COMM_WORLD, &status);
        MPI_Irecv(body, len, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request);
        while (!found)
            MPI_Test(&request, &found, &status);
    }
    CHECK(body[0] == 'a' + way && body[len - 1] == 'a' + way);
}

int main(int argc, char **argv)
{
    static const int lengths[] = { 8, 3000, 30000, 300000, 3000000 };
    int rank, size, round = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *body = malloc(3000000);
    CHECK(body);
    for (int i = 0; i < 5; i++)
        for (int way = 0; way < WAYS; way++, round++) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                memset(body, 'a' + way, lengths[i]);
                MPI_Ssend(body, lengths[i], MPI_CHAR, 1, 1, MPI_COMM_WORLD);
                fclose(fopen(name_of(round), "w"));
            } else if (rank == 1) {
                receive(body, lengths[i], way);
                time_t begun = time(NULL);
                while (access(name_of(round), F_OK) != 0)
                    CHECK(time(NULL) - begun < 60);
                unlink(name_of(round));
            }
        }
    free(body);
    if (rank == 0)
        printf("released: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
