/* A flood of messages that nobody asked for must not take the receiver's memory: rank 0 sends
 * COUNT messages of BYTES with tag 1 while rank 1 looks away, then rank 1 receives them all.
 * Prints by how many MB each rank's resident memory grew at most.
 *
 *   flood COUNT BYTES [wild]    with wild, rank 1 first waits for a message sent after the flood */
#include "check.h"
#include <unistd.h>

static double resident_mb(void)
{
    long pages = 0, rss = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld %ld", &pages, &rss) == 2);
    fclose(f);
    return rss * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long count = argc > 1 ? atol(argv[1]) : 100000;
    int bytes = argc > 2 ? atoi(argv[2]) : 0, wild = argc > 3;
    char *buf = calloc(1, bytes + 1), last = 0;
    MPI_Request late = MPI_REQUEST_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double before = resident_mb(), most = before;
    if (rank == 0) {
        int ahead = 1000;
        MPI_Request *r = malloc(sizeof *r * ahead);
        for (int i = 0; i < ahead; i++)
            r[i] = MPI_REQUEST_NULL;
        if (wild) {
            for (int i = 0; i < ahead; i++)
                MPI_Isend(buf, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[i]);
            MPI_Isend(buf, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &late);
            count -= ahead;
        }
        for (long i = 0; i < count; i++) {
            MPI_Wait(&r[i % ahead], MPI_STATUS_IGNORE);
            buf[0] = (char)(bytes ? 7 : 0);
            MPI_Isend(buf, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[i % ahead]);
        }
        MPI_Waitall(ahead, r, MPI_STATUSES_IGNORE);
        MPI_Wait(&late, MPI_STATUS_IGNORE);
        most = resident_mb();
    } else if (rank == 1) {
        if (wild)
            MPI_Recv(&last, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            sleep(1);
        for (long i = 0; i < count; i++) {
            MPI_Recv(buf, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (i % 1000 == 0 && resident_mb() > most)
                most = resident_mb();
        }
    }
    double grew = most - before, all = 0;
    MPI_Reduce(&grew, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("grew %.1f MB\n", all);
    MPI_Finalize();
    return 0;
}
