/* Ranks in various phases, for tests that kill them:  back WAY [ARGUMENT]
 *   input          rank 0 reads lines and tells them to all
 *   after          MPI_Finalize, then work and output
 *   left FILE      MPI_Finalize, then a wait for FILE
 *   fault FILE     rank 1 has a fault, but not while FILE is there; it makes FILE first unless FILE is "-"
 *   shared|child|socket [GATE]   something that an image can't hold, or only one in memory, then work
 *   work [GATE]    work alone
 *   short [GATE]   a tenth of it
 * With GATE they go on in silence until that file is there, however fast the machine is. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static void pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

static unsigned long long mix(unsigned long long sum, const char *text)
{
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 1099511628211ull;
    return sum;
}

/* Lines in pieces, so that kills meet unfinished ones. */
static void line(const char *what, int i, unsigned long long sum)
{
    printf("%s ", what);
    fflush(stdout);
    printf("%d %016llx\n", i, sum);
    fflush(stdout);
}

static unsigned long long one_round(unsigned long long mine)
{
    unsigned long long all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    pause_ms(1);
    return all * 6364136223846793005ull + rank;
}

static void work(int rounds)
{
    unsigned long long mine = rank + 1;
    for (int i = 1; i <= rounds; i++) {
        mine = one_round(mine);
        if (i % 20 == 0)
            line("round", i, mine);
    }
}

static void work_until(const char *gate)
{
    for (int closed = 1; closed;) {
        one_round(rank);
        if (rank == 0)
            closed = access(gate, F_OK) != 0;
        MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static void input(void)
{
    unsigned long long sum = 1469598103934665603ull;
    char text[256];
    for (int i = 0;; i++) {
        int have = 0;
        if (rank == 0 && fgets(text, sizeof text, stdin))
            have = strlen(text) + 1;
        MPI_Bcast(&have, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!have) {
            line("end", i, sum);
            return;
        }
        MPI_Bcast(text, have, MPI_CHAR, 0, MPI_COMM_WORLD);
        sum = mix(sum, text);
        if (i % 100 == 0) {
            pause_ms(1);
            line("read", i, sum);
        }
    }
}

static void fault(const char *file)
{
    work(100);
    if (rank == 1 && (!strcmp(file, "-") || access(file, F_OK) != 0)) {
        if (strcmp(file, "-"))
            close(open(file, O_CREAT | O_WRONLY, 0600));
        raise(SIGSEGV);
    }
    work(100);
}

static void refused(const char *what, const char *gate)
{
    pid_t child = 0;
    if (!strcmp(what, "socket"))
        CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    if (!strcmp(what, "shared"))
        CHECK(shmat(shmget(IPC_PRIVATE, 4096, 0600), NULL, 0) != (void *)-1);
    if (!strcmp(what, "child") && (child = fork()) == 0) {
        pause();
        _exit(0);
    }
    work(100);
    if (gate)
        work_until(gate);
    if (child > 0) {
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
    }
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "work";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(way, "input"))
        input();
    else if (!strcmp(way, "fault"))
        fault(argc > 2 ? argv[2] : "-");
    else if (!strcmp(way, "work"))
        work(1000);
    else if (!strcmp(way, "after"))
        work(100);
    else if (!strcmp(way, "left"))
        work(10);
    else
        refused(way, argc > 2 ? argv[2] : NULL);
    if (!strcmp(way, "work") && argc > 2)
        work_until(argv[2]);
    MPI_Finalize();
    if (!strcmp(way, "after"))
        for (int i = 1; i <= 100; i++) {
            pause_ms(10);
            line("after", i, i);
        }
    if (!strcmp(way, "left")) {
        line("left", 0, rank);
        while (access(argv[2], F_OK) != 0)
            pause_ms(5);
        line("end", 0, rank);
    }
    return 0;
}
