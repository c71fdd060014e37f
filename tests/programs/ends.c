/* Ways to end, for tests of the launcher: ends WAY RANK
 *   exit CODE|abort CODE|read-abort CODE (while a thread reads from a stream)|segv|kill|quit (exit 0 without MPI_Finalize)|hang|spin|finish
 * RANK does it while all others wait in MPI for a message that never comes. */
#include "check.h"
#include <signal.h>
#include <pthread.h>
#include <unistd.h>

/* Holds the lock of its stream for ever. */
static void *reader(void *stream)
{
    char line[8];
    return fgets(line, sizeof line, stream);
}

static void start_reader(void)
{
    int ends[2];
    pthread_t thread;
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, reader, fdopen(ends[0], "r")) == 0);
    usleep(100000);
}

int main(int argc, char **argv)
{
    int rank, x;
    CHECK(argc > 2);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[1], "finish")) {
        MPI_Finalize();
        return 0;
    }
    int code = argc > 3 ? atoi(argv[3]) : 1;
    if (rank == atoi(argv[2])) {
        if (!strcmp(argv[1], "exit"))
            exit(code);
        if (!strcmp(argv[1], "abort"))
            MPI_Abort(MPI_COMM_WORLD, code);
        if (!strcmp(argv[1], "read-abort")) {
            start_reader();
            MPI_Abort(MPI_COMM_WORLD, code);
        }
        if (!strcmp(argv[1], "segv"))
            raise(SIGSEGV);
        if (!strcmp(argv[1], "kill"))
            raise(SIGKILL);
        if (!strcmp(argv[1], "quit"))
            exit(0);
        for (;;) {
            if (!strcmp(argv[1], "hang"))
                pause();
        }
    }
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
