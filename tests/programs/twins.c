/* Actions of a rank while images of it are taken and restored. Each case repeats one action until
 * FILE exists, and checks that the rank notices nothing.
 *
 *   twins CASE FILE [FOLDER] */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static const char *folder = ".";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void sleep_ms(int ms)
{
    struct timespec t = { 0, ms * 1000000L };
    CHECK(nanosleep(&t, NULL) == 0);
}

/* A file of this rank's own. */
static const char *own(const char *name, int whose)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, whose);
    return path;
}

/* Calls that report an interruption although the handler asks for their restart. */
static void interruptions(long round)
{
    struct timespec ms30 = { 0, 30000000 }, until;
    struct timeval tv = { 0, 30000 };
    double start = now();
    switch (round % 9) {
    case 0:
        CHECK(nanosleep(&ms30, NULL) == 0);
        break;
    case 1:
        CHECK(usleep(30000) == 0);
        break;
    case 2:
        CHECK(poll(NULL, 0, 30) == 0);
        break;
    case 3:
        CHECK(select(0, NULL, NULL, NULL, &tv) == 0);
        break;
    case 4: {
        struct epoll_event event;
        int ep = epoll_create1(0);
        CHECK(ep >= 0 && epoll_wait(ep, &event, 1, 30) == 0);
        close(ep);
        break;
    }
    case 5: {
        sem_t sem;
        sem_init(&sem, 0, 0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 30000000;
        if (until.tv_nsec >= 1000000000)
            until.tv_sec++, until.tv_nsec -= 1000000000;
        CHECK(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
        break;
    }
    case 6: {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        CHECK(sigtimedwait(&set, NULL, &ms30) == -1 && errno == EAGAIN);
        break;
    }
    case 7: {
        int ends[2];
        char byte;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        CHECK(recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN);
        close(ends[0]);
        close(ends[1]);
        break;
    }
    default: {
        int id = semget(IPC_PRIVATE, 1, 0600);
        struct sembuf down = { 0, -1, 0 };
        CHECK(id >= 0 && semtimedop(id, &down, 1, &ms30) == -1 && errno == EAGAIN);
        CHECK(semctl(id, 0, IPC_RMID) == 0);
        break;
    }
    }
    CHECK(now() - start >= 0.0299);
}

/* A twin is no child of the program's. */
static void children(long round)
{
    (void)round;
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    sleep_ms(10);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
}

static volatile sig_atomic_t ticks, beats;
static timer_t beat;

static void tick(int signal)
{
    if (signal == SIGALRM)
        ticks++;
    else
        beats++;
}

/* Interval timers and POSIX timers go on in a restored process. */
static void timers(long round)
{
    if (round == 0) {
        struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
        struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
        struct itimerspec spec = { { 0, 3000000 }, { 0, 3000000 } };
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
        sigaction(SIGALRM, &action, NULL);
        sigaction(SIGRTMIN, &action, NULL);
        CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &beat) == 0);
        CHECK(timer_settime(beat, 0, &spec, NULL) == 0);
    }
    int t = ticks, b = beats;
    double limit = now() + 10;
    while ((ticks < t + 2 || beats < b + 2) && now() < limit)
        pause();
    CHECK(ticks >= t + 2 && beats >= b + 2);
}

/* An alarm far away stays set, and does not start anew. */
static void alarms(long round)
{
    static double set;
    if (round == 0) {
        alarm(100000);
        set = now();
    }
    sleep_ms(10);
    struct itimerval left;
    CHECK(getitimer(ITIMER_REAL, &left) == 0);
    /* Less than what passed may be gone: nobody lives between an image's last use and its next. */
    CHECK(left.it_value.tv_sec > 99000 && left.it_value.tv_sec < 100000);
    CHECK(now() >= set);
}

/* Signals that wait are still waiting in a restored process, with what they carry. */
static void pending(long round)
{
    sigset_t set, have;
    struct timespec none = { 0, 0 };
    siginfo_t info;
    union sigval value = { .sival_int = (int)round };
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, value) == 0);
    sleep_ms(25);
    CHECK(sigpending(&have) == 0 && sigismember(&have, SIGUSR1) == 1);
    CHECK(sigtimedwait(&set, &info, &none) == SIGUSR1);
    CHECK(sigtimedwait(&set, &info, &none) == SIGRTMIN + 1 && info.si_value.sival_int == (int)round);
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
}

static char other_stack[65536];
static volatile sig_atomic_t heard, on_stack;

static void hear(int signal, siginfo_t *info, void *context)
{
    char here;
    (void)signal, (void)context;
    heard = info->si_value.sival_int;
    on_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
    /* Long enough for an order to come. */
    double until = now() + 0.025;
    while (now() < until)
        ;
}

/* The program's own handlers, on a stack of their own. */
static void handlers(long round)
{
    union sigval value = { .sival_int = (int)(round % 1000) + 1 };
    stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    if (round == 0) {
        struct sigaction action = { .sa_sigaction = hear, .sa_flags = SA_SIGINFO | SA_ONSTACK };
        CHECK(sigaltstack(&stack, NULL) == 0);
        sigaction(SIGUSR1, &action, NULL);
    }
    CHECK(sigqueue(getpid(), SIGUSR1, value) == 0);
    CHECK(heard == value.sival_int && on_stack);
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_sp == (void *)other_stack && !(stack.ss_flags & SS_DISABLE));
}

/* Files: positions, appends, one that has no name any more. */
static void files(long round)
{
    static FILE *text;
    static int appended, unlinked;
    long back;
    if (round == 0) {
        text = fopen(own("text", rank), "w+");
        appended = open(own("appended", rank), O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
        unlinked = open(own("unlinked", rank), O_CREAT | O_TRUNC | O_RDWR, 0600);
        CHECK(text && appended >= 0 && unlinked >= 0 && unlink(own("unlinked", rank)) == 0);
    }
    fprintf(text, "%ld\n", round);
    CHECK(fflush(text) == 0);
    CHECK(write(appended, &round, sizeof round) == sizeof round);
    CHECK(write(unlinked, &round, sizeof round) == sizeof round);
    sleep_ms(5);
    CHECK(lseek(unlinked, 0, SEEK_CUR) == (off_t)((round + 1) * sizeof round));
    CHECK(pread(unlinked, &back, sizeof back, round * sizeof back) == sizeof back && back == round);
    for (long i = 0; i <= round; i++)
        CHECK(pread(appended, &back, sizeof back, i * sizeof back) == sizeof back && back == i);
    struct stat stat;
    CHECK(fstat(appended, &stat) == 0 && stat.st_size == (off_t)((round + 1) * sizeof round));
    rewind(text);
    for (long i = 0; i <= round; i++)
        CHECK(fscanf(text, "%ld", &back) == 1 && back == i);
    CHECK(fseek(text, 0, SEEK_END) == 0);
}

/* A number of /proc/self/status. */
static long status_of(const char *field)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            value = atol(line + strlen(field));
    fclose(file);
    return value;
}

/* Locks of files. A restored rank has the locks that it held at its image. Its predecessor does not
 * keep it from locks that were taken later, and no image keeps a lock that the rank released. */
static void locks(long round)
{
    static int whole, range;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20 };
    if (round == 0) {
        whole = open(own("whole", rank), O_CREAT | O_RDWR, 0600);
        range = open(own("range", rank), O_CREAT | O_RDWR, 0600);
        CHECK(whole >= 0 && range >= 0);
        CHECK(flock(whole, LOCK_EX) == 0 && fcntl(range, F_SETLKW, &lock) == 0);
    }
    int shut = open(own("shut", rank), O_CREAT | O_RDWR, 0600);
    CHECK(shut >= 0 && flock(shut, LOCK_EX | LOCK_NB) == 0);
    sleep_ms(3);
    close(shut);
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (rank + 1) % size;
    int other = open(own("whole", next), O_RDWR), there = open(own("range", next), O_RDWR);
    CHECK(other >= 0 && flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    CHECK(there >= 0 && fcntl(there, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK);
    CHECK(lock.l_start == 10 && lock.l_len == 20);
    close(other);
    close(there);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Locked memory is locked again. */
static void locked_memory(long round)
{
    static char *memory;
    if (round == 0) {
        memory = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED && mlock(memory, 32768) == 0);
    }
    sleep_ms(10);
    CHECK(status_of("VmLck:") >= 32);
}

/* Files of /proc that tell of the rank itself. A restored rank reads of itself, not of its
 * predecessor, also through a file that was open at its image. */
static void own_status(long round)
{
    static int status, stat;
    char text[512];
    long pid, shown, stated;
    if (round == 0) {
        status = open("/proc/self/status", O_RDONLY);
        snprintf(text, sizeof text, "/proc/self/task/%d/stat", (int)getpid());
        stat = open(text, O_RDONLY);
        CHECK(status >= 0 && stat >= 0);
    }
    sleep_ms(10);
    do { /* Again if the rank has come back meanwhile, with another number. */
        pid = number_in_proc();
        shown = number_in_status(status);
        ssize_t length = pread(stat, text, sizeof text - 1, 0);
        CHECK(length > 0);
        text[length] = 0;
        stated = atol(text);
    } while (pid != number_in_proc());
    CHECK(shown == pid && stated == pid);
}

/* In the C library's own functions: its heap, its streams, its loader, a recursive lock. */
static void library(long round)
{
    static pthread_mutex_t mutex;
    static char *kept[64];
    char text[64];
    if (round == 0) {
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
        CHECK(pthread_mutex_init(&mutex, &kind) == 0);
    }
    double until = now() + 0.02;
    for (unsigned i = 0; now() < until; i++) {
        unsigned at = (i * 2654435761u >> 8) % 64;
        free(kept[at]);
        kept[at] = malloc(1 + (i * 40503u >> 4) % 200000);
        CHECK(kept[at]);
        kept[at][0] = 1;
        CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == 0);
        snprintf(text, sizeof text, "%u %g", i, i * 0.5);
        CHECK(setenv("TWINS", text, 1) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        if (i % 16 == 0) {
            void *library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
            CHECK(library && dlclose(library) == 0);
        }
    }
}

/* Much output at once, more than a pipe holds; silence after so many rounds, however long it runs:
 * a repeated run writes the same. */
#define OUTPUT_ROUNDS 100

static void output(long round)
{
    static char line[1024];
    if (line[0] == 0)
        memset(line, 'x', sizeof line - 1);
    for (int i = 0; i < 200 && round < OUTPUT_ROUNDS; i++)
        printf("%ld %d %s\n", round, i, line);
    CHECK(fflush(stdout) == 0);
    sleep_ms(15);
}

/* What ps shows of a restored process is what it was. */
static void looks(long round)
{
    static char willing[32];
    char name[32] = "", text[32] = "";
    /* A file of /proc/self that is open at the image is the old process's: after a restore it is
     * read anew. */
    for (int tries = 0; tries < 2 && !(name[0] && text[0]); tries++) {
        FILE *comm = fopen("/proc/self/comm", "r"), *oom = fopen("/proc/self/oom_score_adj", "r");
        CHECK(comm && oom);
        if (!fgets(name, sizeof name, comm) || !fgets(text, sizeof text, oom))
            name[0] = text[0] = 0;
        fclose(comm);
        fclose(oom);
    }
    if (round == 0)
        strcpy(willing, text);
    CHECK(strcmp(name, "twins\n") == 0 && strcmp(text, willing) == 0);
    sleep_ms(5);
}

/* A process may bind itself. (pthread_setaffinity_np of a restored thread itself meets its old
 * number and fails.) */
static void affinity(long round)
{
    cpu_set_t set;
    (void)round;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    sleep_ms(10);
}

/* State that twins can't hold: while it lasts no image is taken, and the job continues. */
static void child(long round)
{
    static pid_t pid;
    if (round == 0 && (pid = fork()) == 0)
        for (;;)
            pause();
    sleep_ms(10);
    CHECK(pid > 0 && waitpid(-1, NULL, WNOHANG) == 0);
}

static void *idle(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static void threads(long round)
{
    static pthread_t thread;
    if (round == 0)
        CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
    sleep_ms(10);
}

/* A thread that blocks even the signals that the C library lets nobody block. */
static void *be_deaf(void *nothing)
{
    unsigned long every = ~0ul;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &every, NULL, 8) == 0);
    return idle(nothing);
}

static void deaf(long round)
{
    static pthread_t thread;
    if (round == 0)
        CHECK(pthread_create(&thread, NULL, be_deaf, NULL) == 0);
    sleep_ms(10);
}

static void shared(long round)
{
    static int *memory;
    if (round == 0) {
        int segment = shmget(IPC_PRIVATE, 4096, 0600);
        memory = shmat(segment, NULL, 0);
        CHECK(memory != (void *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
    }
    *memory = (int)round;
    sleep_ms(10);
}

static void holes(long round)
{
    if (round == 0) {
        void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED && madvise(memory, 4096, MADV_DONTFORK) == 0);
    }
    sleep_ms(10);
}

/* Calls that only their socket's own time-out ends. */
static void timeouts(long round)
{
    static int full[2];
    static char block[65536];
    struct timeval tv = { 0, 30000 };
    if (round == 0) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, full) == 0);
        CHECK(setsockopt(full[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) == 0);
        CHECK(setsockopt(full[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) == 0);
        while (send(full[0], block, sizeof block, MSG_DONTWAIT) > 0)
            ;
        while (send(full[0], block, 1, MSG_DONTWAIT) > 0)
            ;
    }
    double begun = now();
    if (round % 2)
        CHECK(send(full[0], block, 1, 0) == -1 && errno == EAGAIN);
    else
        CHECK(read(full[0], block, 1) == -1 && errno == EAGAIN);
    CHECK(now() - begun >= 0.0299);
}

/* A file that two ranks write is left as it is, one that is a rank's own is cut back: both have one
 * checkpoint, taken here. What else is written to them comes from the test. */
static void shared_file(long round)
{
    static int both, mine;
    if (round == 0) {
        both = open(own("both", 0), O_CREAT | O_RDWR | O_APPEND, 0600);
        mine = open(own("mine", rank), O_CREAT | O_RDWR | O_APPEND, 0600);
        CHECK(both >= 0 && mine >= 0);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(MPIX_Checkpoint() == MPI_SUCCESS);
    }
    CHECK(write(both, "x\n", 2) == 2 && write(mine, "x\n", 2) == 2);
    sleep_ms(4);
}

/* All signals are blocked from before MPI_Init on, and sometimes waited for: none of them may be a
 * checkpoint request. */
static void blocked(long round)
{
    sigset_t every, found;
    struct timespec ms5 = { 0, 5000000 };
    siginfo_t info;
    sigfillset(&every);
    double begun = now();
    if (round % 3 == 0)
        while (now() - begun < 0.005)
            ;
    else if (round % 3 == 1)
        CHECK(sigtimedwait(&every, &info, &ms5) == -1 && errno == EAGAIN);
    else {
        int fd = signalfd(-1, &every, SFD_CLOEXEC);
        struct pollfd wait = { fd, POLLIN, 0 };
        CHECK(fd >= 0 && poll(&wait, 1, 5) == 0);
        close(fd);
    }
    CHECK(sigpending(&found) == 0);
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        CHECK(sigismember(&found, signal) != 1);
}

/* Short calls that take the library's lock: requests also arrive while it is taken or released. */
static void locked_calls(long round)
{
    int numbers, addresses, types, combiner;
    (void)round;
    for (int i = 0; i < 2000000; i++) {
        MPI_Type_get_envelope(MPI_INT, &numbers, &addresses, &types, &combiner);
        CHECK(combiner == MPI_COMBINER_NAMED);
    }
}

static const struct {
    const char *name;
    void (*run)(long round);
} cases[] = {
    { "interruptions", interruptions }, { "children", children }, { "timers", timers },
    { "alarms", alarms }, { "pending", pending }, { "handlers", handlers }, { "files", files },
    { "locks", locks },
    { "locked_memory", locked_memory }, { "own_status", own_status }, { "library", library },
    { "output", output }, { "looks", looks }, { "affinity", affinity }, { "child", child },
    { "threads", threads }, { "deaf", deaf }, { "shared", shared }, { "holes", holes }, { "timeouts", timeouts },
    { "shared_file", shared_file }, { "blocked", blocked },
    { "locked_calls", locked_calls },
};

/* A manager that has seen a handler may send its request just after MPI_Finalize. */
static void send_late_requests(void)
{
    const int signals[] = { SIGRTMAX - 2, 33 };
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        siginfo_t info = { .si_signo = signals[i], .si_code = SI_QUEUE };
        info.si_pid = getpid();
        CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signals[i], &info) == 0);
    }
}

int main(int argc, char **argv)
{
    void (*run)(long) = NULL;
    if (argc > 1 && strcmp(argv[1], "blocked") == 0) {
        sigset_t every;
        sigfillset(&every);
        CHECK(sigprocmask(SIG_BLOCK, &every, NULL) == 0);
    }
    int level = argc > 1 && strcmp(argv[1], "locked_calls") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, given;
    MPI_Init_thread(&argc, &argv, level, &given);
    CHECK(given >= level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 2);
    if (argc > 3)
        folder = argv[3];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            run = cases[i].run;
    CHECK(run);
    for (long round = 0;; round++) {
        run(round);
        int stop = access(argv[2], F_OK) == 0 && (run != output || round + 1 >= OUTPUT_ROUNDS), all = 0;
        MPI_Allreduce(&stop, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (all)
            break;
    }
    printf("rank %d is through\n", rank);
    MPI_Finalize();
    send_late_requests();
    return 0;
}
