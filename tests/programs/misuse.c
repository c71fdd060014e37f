/* Violations of the standard, for tests of the messages: misuse WAY
 *   after|abort-after (MPI after MPI_Finalize, rank 1)|abort-before (MPI_Init)
 *   fork-send|fork-returns (an error code comes back)|fork-abort|fork-exit (with an exit handler that finalises)
 *   signal (MPI_Abort in a handler of SIGALRM, which a test sends while rank 1 waits in MPI; it prints its pid first)
 *   signal-malloc (the same while it is in malloc; a timer sends it)
 *   bad-buffer (a long send from where there is no memory)
 *   watchdog (a thread of rank 0 calls MPI_Abort while the rank is in MPI_Finalize, and rank 1 is not)
 *   session-again (sessions after the last one has ended, and one after MPI_Finalize)
 * The job continues after fork-*: these print how the child ended. Needs 2 ranks. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int is(char **argv, const char *way)
{
    return !strcmp(argv[1], way);
}

static void finalizes(void)
{
    int done;
    MPI_Finalized(&done);
    if (!done)
        MPI_Finalize();
}

static void child(char **argv, int rank)
{
    int x = 4711;
    if (is(argv, "fork-send"))
        MPI_Send(&x, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
    if (is(argv, "fork-returns"))
        _exit(class_of(MPI_Send(&x, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD)));
    if (is(argv, "fork-abort"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (is(argv, "fork-exit")) {
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &(MPI_Session){0}) != MPI_SUCCESS);
        exit(3);
    }
    exit(0);
}

static void forks(char **argv, int rank)
{
    int x = 17, got = 0, status;
    atexit(finalizes);
    if (is(argv, "fork-returns"))
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    /* Something is under way. */
    MPI_Request r;
    MPI_Irecv(&got, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &r);
    if (rank == 1) {
        printf("parent\n");
        pid_t pid = fork();
        if (pid == 0)
            child(argv, rank);
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        printf("child %d\n", WEXITSTATUS(status));
        fflush(stdout);
    }
    MPI_Send(&x, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(got == 17);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void aborts(int signal)
{
    (void)signal;
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void signals(char **argv, int rank)
{
    int x;
    /* Some time later, wherever the program is then. */
    struct itimerval soon = {{0, 0}, {0, 50000}};
    signal(SIGALRM, aborts);
    if (rank == 1 && is(argv, "signal")) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
    }
    if (rank == 1 && is(argv, "signal-malloc"))
        setitimer(ITIMER_REAL, &soon, NULL);
    while (rank == 1 && is(argv, "signal-malloc")) {
        /* Beyond what lies ready for each thread: the heap's lock is taken. */
        void *volatile p[64];
        for (int i = 0; i < 64; i++)
            p[i] = malloc(1500);
        for (int i = 0; i < 64; i++)
            free(p[i]);
    }
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *watches(void *arg)
{
    (void)arg;
    /* The rank waits in MPI_Finalize by then. */
    usleep(300000);
    MPI_Abort(MPI_COMM_WORLD, 8);
    return NULL;
}

static int watchdog(int argc, char **argv)
{
    int provided, rank;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        CHECK(pthread_create(&thread, NULL, watches, NULL) == 0);
    else
        sleep(1000);
    MPI_Finalize();
    return 0;
}

/* On a communicator that nobody has named. */
static int abort_unnamed(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "unnamed", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    return MPI_Abort(comm, 3);
}

/* Prints what the second one says, through the handler that it was to have. */
static int sessions(int argc, char **argv)
{
    MPI_Session session;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    for (int i = 0; i < 3; i++) {
        int sum = 1;
        MPI_Group group;
        MPI_Comm comm;
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
        MPI_Group_from_session_pset(session, "mpi://world", &group);
        MPI_Comm_create_from_group(group, "again", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
        printf("session %d of %d ranks\n", i, sum);
        MPI_Group_free(&group);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Error_string(code, text, &length);
    printf("%s\n", text);
    return code == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank;
    CHECK(argc > 1);
    if (is(argv, "session-again"))
        return sessions(argc, argv);
    if (is(argv, "abort-unnamed"))
        return abort_unnamed();
    if (is(argv, "watchdog"))
        return watchdog(argc, argv);
    if (is(argv, "abort-before"))
        MPI_Abort(MPI_COMM_WORLD, 6);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strncmp(argv[1], "fork-", 5))
        forks(argv, rank);
    if (!strncmp(argv[1], "signal", 6))
        signals(argv, rank);
    if (is(argv, "bad-buffer")) {
        enum { LONG = 1 << 22 };
        if (rank == 1)
            MPI_Send((void *)(uintptr_t)4096, LONG, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(malloc(LONG), LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    if (rank == 1 && is(argv, "after"))
        MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && is(argv, "abort-after"))
        MPI_Abort(MPI_COMM_WORLD, 7);
    return 0;
}
