/* Threads that hold mutexes across all checkpoints, each with attributes of its own.
 *
 * held ROUNDS [GATE]
 *
 * Each thread holds a mutex of every kind from the first round to the last. In each round it checks
 * that it still is their owner, and that its name, scheduling, processors, alternate stack and
 * signal mask are as it has set them. So does the first thread. With GATE the rounds go on in
 * silence until that file is there. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 4, KINDS = 6, STACK = 32768 };
enum { NORMAL, RECURSIVE, CHECKING, ADAPTIVE, ROBUST, INHERITING };

struct attributes {
    char name[16];
    int nice, policy;
    cpu_set_t processors;
    stack_t stack;
    sigset_t mask;
};

static pthread_mutex_t mutexes[THREADS][KINDS];
static char stacks[THREADS][STACK];
static pthread_barrier_t round_begins, round_ends;
static int over;

static void make_mutexes(int of)
{
    static const int types[KINDS] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                      PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ERRORCHECK };
    for (int kind = 0; kind < KINDS; kind++) {
        pthread_mutexattr_t how;
        pthread_mutexattr_init(&how);
        CHECK(pthread_mutexattr_settype(&how, types[kind]) == 0);
        if (kind == ROBUST)
            CHECK(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
        if (kind == INHERITING)
            CHECK(pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT) == 0);
        CHECK(pthread_mutex_init(&mutexes[of][kind], &how) == 0);
    }
}

/* Gives the calling thread attributes of its own. */
static void become(int me)
{
    char name[16];
    stack_t stack = { .ss_sp = stacks[me], .ss_size = STACK };
    struct sched_param none = { 0 };
    cpu_set_t one;
    sigset_t mask;
    snprintf(name, sizeof name, "holder %d", me);
    /* The first thread's name is that of the process. */
    CHECK(me == 0 || prctl(PR_SET_NAME, name) == 0);
    CHECK(sigaltstack(&stack, NULL) == 0);
    if (me % 2 == 0)
        CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
    CHECK(setpriority(PRIO_PROCESS, 0, me + 1) == 0);
    CHECK(sched_getaffinity(0, sizeof one, &one) == 0);
    for (int cpu = 0, left = 1 + me % CPU_COUNT(&one); cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &one) && --left != 0)
            CPU_CLR(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGRTMIN + me);
    CHECK(pthread_sigmask(SIG_BLOCK, &mask, NULL) == 0);
}

static struct attributes read_attributes(void)
{
    struct attributes now;
    memset(&now, 0, sizeof now);
    CHECK(prctl(PR_GET_NAME, now.name) == 0);
    now.nice = getpriority(PRIO_PROCESS, 0);
    now.policy = sched_getscheduler(0);
    CHECK(sched_getaffinity(0, sizeof now.processors, &now.processors) == 0);
    CHECK(sigaltstack(NULL, &now.stack) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now.mask) == 0);
    return now;
}

static void check_attributes(const struct attributes *want)
{
    struct attributes now = read_attributes();
    CHECK(strcmp(now.name, want->name) == 0);
    CHECK(now.nice == want->nice);
    CHECK(now.policy == want->policy);
    CHECK(CPU_EQUAL(&now.processors, &want->processors));
    CHECK(now.stack.ss_sp == want->stack.ss_sp && now.stack.ss_size == want->stack.ss_size);
    CHECK(memcmp(&now.mask, &want->mask, sizeof now.mask) == 0);
}

/* The calling thread owns its mutexes, and no mutex of the next thread. */
static void check_owner(int me)
{
    pthread_mutex_t *mine = mutexes[me], *others = mutexes[(me + 1) % THREADS];
    CHECK(pthread_mutex_trylock(&mine[NORMAL]) == EBUSY);
    CHECK(pthread_mutex_lock(&mine[RECURSIVE]) == 0);
    CHECK(pthread_mutex_unlock(&mine[RECURSIVE]) == 0);
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == CHECKING || kind == ROBUST || kind == INHERITING) {
            CHECK(pthread_mutex_lock(&mine[kind]) == EDEADLK);
            CHECK(pthread_mutex_unlock(&others[kind]) == EPERM);
        }
        CHECK(pthread_mutex_trylock(&others[kind]) == EBUSY);
    }
}

/* The rounds of a thread. Its own signals reach it whatever its number is. */
static void hold(int me, void (*talk)(int))
{
    become(me);
    struct attributes want = read_attributes();
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(pthread_mutex_lock(&mutexes[me][kind]) == 0);
    for (int round = 1; !over; round++) {
        pthread_barrier_wait(&round_begins);
        sigset_t waiting;
        check_owner(me);
        check_attributes(&want);
        CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
        CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR1));
        CHECK(sigwaitinfo(&want.mask, NULL) == SIGUSR1);
        if (talk)
            talk(round);
        pthread_barrier_wait(&round_ends);
    }
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(pthread_mutex_unlock(&mutexes[me][kind]) == 0);
}

static void *hold_beside(void *arg)
{
    hold((int)(long)arg, NULL);
    return arg;
}

static int rounds;
static const char *gate;

static void talk(int round)
{
    int one = 1, all = 0, closed = gate && access(gate, F_OK) != 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (round % 50 == 0 && round <= rounds)
        printf("round %d: %d ranks hold their mutexes\n", round, all);
    over = round >= rounds && !closed;
    usleep(300);
}

int main(int argc, char **argv)
{
    int given;
    pthread_t threads[THREADS];
    void *end;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc >= 2 && given >= MPI_THREAD_FUNNELED);
    rounds = atoi(argv[1]);
    gate = argv[2];
    CHECK(pthread_barrier_init(&round_begins, NULL, THREADS) == 0);
    CHECK(pthread_barrier_init(&round_ends, NULL, THREADS) == 0);
    for (int of = 0; of < THREADS; of++)
        make_mutexes(of);
    for (long me = 1; me < THREADS; me++)
        CHECK(pthread_create(&threads[me], NULL, hold_beside, (void *)me) == 0);
    hold(0, talk);
    for (long me = 1; me < THREADS; me++)
        CHECK(pthread_join(threads[me], &end) == 0 && end == (void *)me);
    MPI_Finalize();
    return 0;
}
