/* What a rank has in the kernel beside its memory and its files: semaphores, children that have
 * ended, marks and advice of mappings, limits, settings, privileges. In each round it looks whether
 * all is as it was.
 *
 *   belongings KIND[,KIND...] GATE      until GATE exists */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE 4096
#define BOTH (PROT_READ | PROT_WRITE)

static int rank;

static void *mapped(size_t bytes, int kind, int file)
{
    void *memory = mmap(NULL, bytes, BOTH, kind | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* POSIX semaphores with a name, whose name is gone, and without one; a mapped file of no name. */
static sem_t *named, *nameless, *unnamed;
static long *in_file;
static int file;
static char name[64];

static void begin_semaphores(void)
{
    char path[] = "/dev/shm/rejoin-belongings-XXXXXX", other[80];
    snprintf(name, sizeof name, "/rejoin-belongings-%d", (int)getpid());
    snprintf(other, sizeof other, "%s-gone", name);
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    nameless = sem_open(other, O_CREAT | O_EXCL, 0600, 0);
    CHECK(named != SEM_FAILED && nameless != SEM_FAILED && sem_unlink(other) == 0);
    unnamed = mapped(PAGE, MAP_SHARED, -1);
    CHECK(sem_init(unnamed, 1, 5) == 0);
    file = mkstemp(path);
    CHECK(file >= 0 && unlink(path) == 0 && ftruncate(file, 100 * sizeof(long)) == 0);
    in_file = mapped(100 * sizeof(long), MAP_SHARED, file);
}

static void check_semaphores(long round)
{
    int value;
    long text;
    CHECK(sem_post(named) == 0 && sem_post(nameless) == 0 && sem_post(unnamed) == 0);
    CHECK(sem_wait(unnamed) == 0 && sem_getvalue(unnamed, &value) == 0 && value == 5);
    CHECK(sem_getvalue(named, &value) == 0 && value == round + 1);
    CHECK(sem_getvalue(nameless, &value) == 0 && value == round + 1);
    CHECK(in_file[0] == round && in_file[99] == -round);
    in_file[0]++;
    in_file[99]--;
    CHECK(pread(file, &text, sizeof text, 0) == sizeof text && text == round + 1);
    CHECK(lseek(file, 0, SEEK_END) == 100 * sizeof(long));
}

static void end_semaphores(void)
{
    /* A rollback from here makes it again. */
    CHECK(sem_unlink(name) == 0 || errno == ENOENT);
}

/* Memory that the system empties in a child of the program. */
#define WORDS 4096
static long *wiped;

static void begin_wiped(void)
{
    wiped = mapped(WORDS * sizeof(long), MAP_PRIVATE, -1);
    CHECK(madvise(wiped, WORDS * sizeof(long), MADV_WIPEONFORK) == 0);
    for (long i = 0; i < WORDS; i++)
        wiped[i] = i * 1000003 + rank;
}

static void check_wiped(long round)
{
    for (long i = 0; i < WORDS; i++)
        CHECK(wiped[i] == i * 1000003 + rank + (i < 10 ? round : 0));
    for (long i = 0; i < 10; i++)
        wiped[i]++;
    if (round % 50 == 0) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(wiped[0] == 0 && wiped[WORDS - 1] == 0 ? 0 : 9);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
}

/* Children that have ended, and for which nobody has waited. */
static pid_t exited, killed;

static void begin_children(void)
{
    if ((exited = fork()) == 0)
        _exit(7);
    if ((killed = fork()) == 0)
        for (;;)
            pause();
    CHECK(exited > 0 && killed > 0 && kill(killed, SIGTERM) == 0);
}

static void check_children(long round)
{
    siginfo_t info = { 0 };
    (void)round;
    CHECK(waitid(P_PID, exited, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_code == CLD_EXITED && info.si_status == 7 && info.si_pid == exited);
    CHECK(waitid(P_PID, killed, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_code == CLD_KILLED && info.si_status == SIGTERM && info.si_pid == killed);
}

static void end_children(void)
{
    int status;
    CHECK(waitpid(exited, &status, 0) == exited && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(waitpid(killed, &status, 0) == killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
}

/* Advice about memory, and a mapping that grows. */
static struct {
    int advice;
    const char *flag;
    char *memory;
} advised[] = {
    { MADV_HUGEPAGE, " hg", NULL }, { MADV_NOHUGEPAGE, " nh", NULL }, { MADV_DONTDUMP, " dd", NULL },
    { MADV_RANDOM, " rr", NULL }, { MADV_SEQUENTIAL, " sr", NULL }, { 0, " gd", NULL },
};
enum { ADVISED = sizeof advised / sizeof advised[0] };

static int shows_flag(const void *memory, const char *flag)
{
    char line[512], start[32];
    int found = 0, has = -1;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    CHECK(smaps);
    snprintf(start, sizeof start, "%lx-", (unsigned long)memory);
    while (has < 0 && fgets(line, sizeof line, smaps)) {
        found |= strncmp(line, start, strlen(start)) == 0;
        if (found && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag) != NULL;
    }
    fclose(smaps);
    return has == 1;
}

/* A process that is restored in the midst of the list reads on in its own, which has other text. */
static int has_flag(const void *memory, const char *flag)
{
    return shows_flag(memory, flag) || shows_flag(memory, flag);
}

static void begin_advice(void)
{
    for (int i = 0; i < ADVISED; i++) {
        /* Nothing is mapped beside it, so that mappings stay apart. */
        char *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (advised[i].advice ? 0 : MAP_GROWSDOWN);
        CHECK(room != MAP_FAILED);
        char *memory = advised[i].memory = mmap(room + 32 * PAGE, 8 * PAGE, BOTH, kind, -1, 0);
        CHECK(memory != MAP_FAILED);
        CHECK(!advised[i].advice || madvise(memory, 8 * PAGE, advised[i].advice) == 0);
        memset(memory, i + 1, 8 * PAGE);
    }
}

static void check_advice(long round)
{
    for (int i = 0; i < ADVISED; i++) {
        CHECK(advised[i].memory[round % 8 * PAGE] == i + 1);
        CHECK(round % 20 || has_flag(advised[i].memory, advised[i].flag));
    }
}

/* Limits and settings of the process. */
#define DISK (2 << 13 | 5)

static void begin_settings(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 300;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && prctl(PR_SET_TIMERSLACK, 12345) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && personality(ADDR_NO_RANDOMIZE) >= 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_ioprio_set, 1, 0, DISK) == 0);
    /* Without NUMA, or where a container forbids it, there is none. */
    unsigned long nodes = 1;
    (void)!syscall(SYS_set_mempolicy, 2, &nodes, 64);
}

static void check_settings(long round)
{
    static int policy = -1;
    struct rlimit limit;
    int reaper = 0, mode = 0;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 300);
    CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 && prctl(PR_GET_TIMERSLACK) == 12345);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper == 1);
    CHECK(personality(0xffffffff) == ADDR_NO_RANDOMIZE);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(syscall(SYS_ioprio_get, 1, 0) == DISK);
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0) {
        CHECK(round == 0 || mode == policy);
        policy = mode;
    }
}

/* Capabilities that the program has dropped. */
static int dropped(void)
{
    return prctl(PR_CAPBSET_READ, 12, 0, 0, 0) == 0;
}

static void begin_privileges(void)
{
    struct { unsigned version; int pid; } header = { 0x20080522, 0 };
    unsigned sets[6];
    if (geteuid() != 0)
        return;
    CHECK(prctl(PR_CAPBSET_DROP, 12, 0, 0, 0) == 0);
    CHECK(syscall(SYS_capget, &header, sets) == 0);
    for (int i = 0; i < 3; i++)
        sets[i] &= ~(1u << 12);
    CHECK(syscall(SYS_capset, &header, sets) == 0);
}

static void check_privileges(long round)
{
    (void)round;
    CHECK(geteuid() != 0 || dropped());
}

/* Another user, if this one may become one. */
#define OTHER 54321

static void begin_user(void)
{
    if (geteuid() == 0)
        CHECK(setgid(OTHER) == 0 && setuid(OTHER) == 0);
}

static void check_user(long round)
{
    (void)round;
    CHECK(geteuid() != 0 && getegid() != 0 && setuid(0) == -1);
}

/* Queues and semaphores that belong to the system. */
static mqd_t queue;
static int set_of_semaphores;

static void begin_queue(void)
{
    struct mq_attr limits = { .mq_maxmsg = 4, .mq_msgsize = 16 };
    char path[64];
    snprintf(path, sizeof path, "/rejoin-belongings-%d", (int)getpid());
    queue = mq_open(path, O_CREAT | O_EXCL | O_RDWR, 0600, &limits);
    CHECK(queue != (mqd_t)-1 && mq_unlink(path) == 0);
}

static void check_queue(long round)
{
    char text[16];
    CHECK(mq_send(queue, (char *)&round, sizeof round, 1) == 0);
    CHECK(mq_receive(queue, text, sizeof text, NULL) == sizeof round);
}

static void begin_system_v(void)
{
    set_of_semaphores = semget(IPC_PRIVATE, 2, 0600);
    CHECK(set_of_semaphores >= 0);
}

static void check_system_v(long round)
{
    struct sembuf up = { 1, 1, 0 };
    (void)round;
    CHECK(semop(set_of_semaphores, &up, 1) == 0);
}

static void end_system_v(void)
{
    CHECK(semctl(set_of_semaphores, 0, IPC_RMID) == 0);
}

static void nothing(void)
{
}

static const struct {
    const char *name;
    void (*begin)(void);
    void (*check)(long round);
    void (*end)(void);
} kinds[] = {
    { "semaphores", begin_semaphores, check_semaphores, end_semaphores },
    { "wiped", begin_wiped, check_wiped, nothing },
    { "children", begin_children, check_children, end_children },
    { "advice", begin_advice, check_advice, nothing },
    { "settings", begin_settings, check_settings, nothing },
    { "privileges", begin_privileges, check_privileges, nothing },
    { "user", begin_user, check_user, nothing },
    { "queue", begin_queue, check_queue, nothing },
    { "system_v", begin_system_v, check_system_v, end_system_v },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

int main(int argc, char **argv)
{
    char wanted[256];
    CHECK(argc > 2);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(wanted, sizeof wanted, ",%s,", argv[1]);
    int has[KINDS];
    for (int i = 0; i < KINDS; i++) {
        char one[64];
        snprintf(one, sizeof one, ",%s,", kinds[i].name);
        has[i] = strstr(wanted, one) != NULL;
        if (has[i])
            kinds[i].begin();
    }
    for (long round = 0; is_closed(argv[2]); round++) {
        for (int i = 0; i < KINDS; i++)
            if (has[i])
                kinds[i].check(round);
        usleep(1000);
    }
    for (int i = 0; i < KINDS; i++)
        if (has[i])
            kinds[i].end();
    printf("rank %d is through\n", rank);
    MPI_Finalize();
    return 0;
}
