/* A rank that never blocks must reach a message behind more unexpected ones than the window holds:
 * rank 0 sends COUNT messages with tag 0 and one with tag 1; rank 1 polls for that one first.
 *
 *   polling test|testany|testsome|iprobe|improbe */
#include "check.h"

enum { COUNT = 2000, BYTES = 4096 };
static char bulk[COUNT][BYTES];

/* One call; true when the message was found. */
static int look(const char *call, MPI_Request *r, MPI_Message *m)
{
    int found = 0, which;
    if (!strcmp(call, "test"))
        MPI_Test(r, &found, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "testany"))
        MPI_Testany(1, r, &which, &found, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "testsome"))
        MPI_Testsome(1, r, &found, &which, MPI_STATUSES_IGNORE);
    else if (!strcmp(call, "iprobe"))
        MPI_Iprobe(0, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    else
        MPI_Improbe(0, 1, MPI_COMM_WORLD, &found, m, MPI_STATUS_IGNORE);
    return found;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *call = argc > 1 ? argv[1] : "test";
    char last = 5;
    static MPI_Request r[COUNT + 1];
    if (rank == 0) {
        for (int i = 0; i < COUNT; i++)
            MPI_Isend(bulk[i], BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &r[i]);
        MPI_Isend(&last, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &r[COUNT]);
        MPI_Waitall(COUNT + 1, r, MPI_STATUSES_IGNORE);
    } else {
        r[0] = MPI_REQUEST_NULL;
        MPI_Message m = MPI_MESSAGE_NULL;
        int posted = !strncmp(call, "test", 4);
        last = 0;
        if (posted)
            MPI_Irecv(&last, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &r[0]);
        double start = MPI_Wtime();
        while (!look(call, r, &m))
            CHECK(MPI_Wtime() - start < 20);
        if (!strcmp(call, "improbe"))
            MPI_Mrecv(&last, 1, MPI_CHAR, &m, MPI_STATUS_IGNORE);
        else if (!posted)
            MPI_Recv(&last, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(last == 5);
        for (int i = 0; i < COUNT; i++)
            MPI_Irecv(bulk[i], BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &r[i]);
        MPI_Waitall(COUNT, r, MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
