/* Threads with timers of their own, as profilers make them.  ticking ROUNDS [GATE]
 *
 * In each round each thread waits for a signal of its timer, whose time is that of the system, of
 * the thread's processor, or of another thread's. Another timer calls back in the C library's
 * helper thread. With GATE the rounds go on in silence until that file is there. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { THREADS = 3, PERIOD = 1000000 };

static pthread_barrier_t round_begins, round_ends;
static int over;
static volatile int calls;
static _Thread_local volatile int ticks;
static _Thread_local volatile unsigned spun;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void call(union sigval value)
{
    (void)value;
    calls++;
}

static void start(timer_t timer)
{
    struct itimerspec often = { { 0, PERIOD }, { 0, PERIOD } };
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
}

/* The clock of the first thread's processor time. The number changes when the process is restored,
 * and the C library keeps the former one. */
static clockid_t clock_of_first(void)
{
    return ~(clockid_t)syscall(SYS_getpid) * 8 | 6;
}

static timer_t make_timer(long me)
{
    timer_t timer;
    int failed;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
    do {
        const clockid_t clocks[THREADS] = { CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_of_first() };
        event.sigev_notify_thread_id = syscall(SYS_gettid);
        failed = timer_create(clocks[me], &event, &timer);
    } while (failed && errno == EINVAL);
    CHECK(!failed);
    start(timer);
    return timer;
}

/* The number of the thread whose timer measures its own time. */
static void *const of_own_time = (void *)1;
/* That of the one whose timer measures the first thread's time, and whether it has its signal. */
static void *const of_firsts_time = (void *)2;
static volatile int has_signal;

static void *wait_for_ticks(void *arg)
{
    timer_t timer = make_timer((long)arg);
    for (;;) {
        pthread_barrier_wait(&round_begins);
        for (int before = ticks; ticks == before;)
            if (arg == of_own_time)
                spun++;
            else
                usleep(100);
        if (arg == of_firsts_time)
            has_signal = 1;
        int last = over;
        pthread_barrier_wait(&round_ends);
        if (last)
            break;
    }
    CHECK(timer_delete(timer) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    int given, size, rounds;
    timer_t timer;
    pthread_t threads[THREADS];
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = call };
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc >= 2 && given >= MPI_THREAD_FUNNELED);
    rounds = atoi(argv[1]);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_barrier_init(&round_begins, NULL, THREADS + 1) == 0);
    CHECK(pthread_barrier_init(&round_ends, NULL, THREADS + 1) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    start(timer);
    for (long me = 0; me < THREADS; me++)
        CHECK(pthread_create(&threads[me], NULL, wait_for_ticks, (void *)me) == 0);
    for (int round = 1; !over; round++) {
        int one = 1, all = 0, closed = argv[2] && access(argv[2], F_OK) != 0;
        MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
        over = round >= rounds && !closed;
        has_signal = 0;
        pthread_barrier_wait(&round_begins);
        while (!has_signal)
            spun++;
        for (int before = calls; calls == before;)
            usleep(200);
        pthread_barrier_wait(&round_ends);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == size);
        if (round % 10 == 0 && round <= rounds)
            printf("round %d: all timers signalled\n", round);
    }
    for (int me = 0; me < THREADS; me++)
        CHECK(pthread_join(threads[me], NULL) == 0);
    CHECK(timer_delete(timer) == 0);
    MPI_Finalize();
    return 0;
}
