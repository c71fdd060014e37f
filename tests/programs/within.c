/* What a process keeps in the kernel for itself: pipes, socket pairs, counters, timers, signal sets
 * and epoll sets, each with something that waits in it from round to round; and memory of a shared
 * kind. A thread sleeps on an epoll set, as the event loops of many libraries do.
 *
 *   within ROUNDS [GATE]      until GATE exists, if it is given */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int rank, size;
static unsigned seed;

/* Bytes that go through a pipe or a pair, and how far both sides are. */
struct stream {
    int in, out;
    uint64_t sent, received;
};

static unsigned char byte_of(uint64_t position)
{
    return (unsigned char)(position * 31 + (position >> 8) + 7);
}

static void put_some(struct stream *s, unsigned most)
{
    unsigned char block[4096];
    unsigned count = 1 + next_random(&seed) % most;
    for (unsigned i = 0; i < count; i++)
        block[i] = byte_of(s->sent + i);
    CHECK(write(s->in, block, count) == (ssize_t)count);
    s->sent += count;
}

static void get_some(struct stream *s, uint64_t keep)
{
    unsigned char block[4096];
    while (s->sent - s->received > keep) {
        uint64_t left = s->sent - s->received - keep;
        ssize_t count = read(s->out, block, left < sizeof block ? left : sizeof block);
        CHECK(count > 0);
        for (ssize_t i = 0; i < count; i++)
            CHECK(block[i] == byte_of(s->received + i));
        s->received += count;
    }
}

/* Messages whose limits count. */
struct messages {
    int in, out;
    unsigned sent, received;
};

static unsigned length_of(unsigned number)
{
    return 1 + number * 37 % 300;
}

static void put_message(struct messages *m)
{
    unsigned char block[400];
    memset(block, (int)m->sent, sizeof block);
    CHECK(write(m->in, block, length_of(m->sent)) == (ssize_t)length_of(m->sent));
    m->sent++;
}

static void get_message(struct messages *m)
{
    unsigned char block[400];
    CHECK(read(m->out, block, sizeof block) == (ssize_t)length_of(m->received));
    CHECK(block[0] == (unsigned char)m->received && block[length_of(m->received) - 1] == block[0]);
    m->received++;
}

static struct stream piped, paired, full, echoed;
static struct messages packets, datagrams, sequence;
static int counter, semaphore, ticks, signals, outer, inner, copy, ended, half[2];
static uint64_t counted;
static long signalled;

/* The thread of an event loop: it sends back what comes. */
static int loop_set, loop_pipe[2], loop_pair[2];

static void *loop(void *nothing)
{
    for (;;) {
        struct epoll_event event;
        unsigned char block[512];
        int found = epoll_wait(loop_set, &event, 1, -1);
        if (found < 0 && errno == EINTR)
            continue;
        CHECK(found == 1 && event.data.u64 == 0x1234567890ull + (uint64_t)rank);
        ssize_t count = read(loop_pipe[0], block, sizeof block);
        CHECK(count >= 0);
        if (count == 0)
            return nothing;
        CHECK(write(loop_pair[0], block, count) == count);
    }
}

static void watch(int set, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = { .events = events, .data.u64 = data };
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void open_pairs(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    piped.out = ends[0], piped.in = ends[1];
    copy = dup(ends[1]);
    CHECK(pipe2(ends, O_DIRECT | O_CLOEXEC) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 1 << 18) == 1 << 18);
    packets.out = ends[0], packets.in = ends[1];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    paired.out = ends[0], paired.in = ends[1];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    full.out = ends[0], full.in = ends[1];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    datagrams.out = ends[0], datagrams.in = ends[1];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    sequence.out = ends[0], sequence.in = ends[1];
    /* A pipe whose writing end is closed, and a pair with one direction shut down. */
    CHECK(pipe(ends) == 0 && write(ends[1], "end", 3) == 3 && close(ends[1]) == 0);
    ended = ends[0];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, half) == 0 && write(half[0], "half", 4) == 4);
    CHECK(shutdown(half[0], SHUT_WR) == 0);
}

static void open_sources(void)
{
    sigset_t set;
    struct itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
    counter = eventfd(0, EFD_NONBLOCK);
    semaphore = eventfd(5, EFD_SEMAPHORE);
    ticks = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(counter >= 0 && semaphore >= 0 && ticks >= 0);
    CHECK(timerfd_settime(ticks, 0, &every, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    inner = epoll_create1(EPOLL_CLOEXEC);
    outer = epoll_create1(0);
    watch(inner, counter, EPOLLIN, 11);
    watch(outer, inner, EPOLLIN, 22);
    watch(outer, paired.out, EPOLLIN, 33);
}

static void open_loop(void)
{
    pthread_t thread;
    loop_set = epoll_create1(0);
    CHECK(pipe2(loop_pipe, O_CLOEXEC) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, loop_pair) == 0);
    watch(loop_set, loop_pipe[0], EPOLLIN, 0x1234567890ull + (uint64_t)rank);
    echoed.in = loop_pipe[1], echoed.out = loop_pair[1];
    CHECK(pthread_create(&thread, NULL, loop, NULL) == 0 && pthread_detach(thread) == 0);
}

/* Fills a pair until it takes no more: it still takes nothing in a restored process. */
static void fill(void)
{
    char byte;
    while (full.sent < 1000000) {
        byte = (char)byte_of(full.sent);
        if (write(full.in, &byte, 1) != 1)
            break;
        full.sent++;
    }
    CHECK(errno == EAGAIN);
}

static void through_pairs(long round)
{
    put_some(&piped, 900);
    get_some(&piped, piped.sent % 3000);
    put_some(&paired, 900);
    get_some(&paired, 1 + paired.sent % 3000);
    put_message(&packets);
    put_message(&sequence);
    put_message(&datagrams);
    if (round > 5) {
        get_message(&packets);
        get_message(&sequence);
        get_message(&datagrams);
    }
    put_some(&echoed, 500);
    get_some(&echoed, 0);
    CHECK(write(full.in, "x", 1) == -1 && errno == EAGAIN);
    /* Two numbers of one description: what one sets the other shows. */
    CHECK(fcntl(copy, F_SETFL, O_WRONLY | (round % 2 ? O_NONBLOCK : 0)) == 0);
    CHECK((fcntl(piped.in, F_GETFL) & O_NONBLOCK) == (round % 2 ? O_NONBLOCK : 0));
    CHECK(fcntl(packets.in, F_GETFD) == FD_CLOEXEC && fcntl(piped.in, F_GETFD) == 0);
    CHECK(fcntl(packets.in, F_GETPIPE_SZ) == 1 << 18);
    int waits = 0;
    CHECK(ioctl(ended, FIONREAD, &waits) == 0 && waits == 3);
    struct pollfd end = { .fd = ended, .events = POLLIN };
    CHECK(poll(&end, 1, 0) == 1 && end.revents == (POLLIN | POLLHUP));
    CHECK(ioctl(half[1], FIONREAD, &waits) == 0 && waits == 4);
    CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

static void through_sources(long round)
{
    uint64_t value = 1 + (uint64_t)round % 7;
    struct epoll_event events[4];
    CHECK(write(counter, &value, sizeof value) == sizeof value);
    counted += value;
    int found = epoll_wait(outer, events, 4, 1000);
    CHECK(found == 2 && events[0].data.u64 + events[1].data.u64 == 55);
    CHECK(epoll_wait(inner, events, 4, 1000) == 1 && events[0].data.u64 == 11);
    if (round % 3 == 0) {
        CHECK(read(counter, &value, sizeof value) == sizeof value && value == counted);
        counted = 0;
        CHECK(epoll_wait(inner, events, 4, 0) == 0);
    }
    CHECK(read(semaphore, &value, sizeof value) == sizeof value && value == 1);
    value = 1;
    CHECK(write(semaphore, &value, sizeof value) == sizeof value);
    struct pollfd tick = { .fd = ticks, .events = POLLIN };
    CHECK(poll(&tick, 1, 2000) == 1);
    CHECK(read(ticks, &value, sizeof value) == sizeof value && value >= 1);
    struct signalfd_siginfo info;
    union sigval number = { .sival_int = (int)round };
    CHECK(sigqueue(getpid(), SIGRTMIN + 3, number) == 0);
    if (round > 3) {
        CHECK(read(signals, &info, sizeof info) == sizeof info);
        CHECK(info.ssi_signo == (unsigned)SIGRTMIN + 3 && info.ssi_int == signalled);
        signalled++;
    }
}

/* Memory of a shared kind: anonymous, of a memory file under two addresses, and of a file. */
#define WORDS 40000
static long *anonymous, *of_memory[2], *of_file;
static int memory_file;
static char path[64];

static long *mapped(int file, int access)
{
    int kind = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    long *memory = mmap(NULL, WORDS * sizeof(long), access, kind, file, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void open_memory(void)
{
    int both = PROT_READ | PROT_WRITE;
    anonymous = mapped(-1, both);
    memory_file = memfd_create("within", MFD_CLOEXEC);
    CHECK(memory_file >= 0 && ftruncate(memory_file, WORDS * sizeof(long) + 100) == 0);
    of_memory[0] = mapped(memory_file, both);
    of_memory[1] = mapped(memory_file, PROT_READ);
    snprintf(path, sizeof path, "/rejoin-within-%d", (int)getpid());
    /* A rollback to a checkpoint before this line finds the file that was made after it. */
    CHECK(shm_unlink(path) == 0 || errno == ENOENT);
    int file = shm_open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, WORDS * sizeof(long)) == 0);
    of_file = mapped(file, both);
    close(file);
}

static void through_memory(long round)
{
    long *all[] = { anonymous, of_memory[0], of_file };
    for (int i = 0; i < 3; i++) {
        CHECK(all[i][0] == round && all[i][WORDS - 1] == -round);
        all[i][0]++;
        all[i][WORDS - 1]--;
        long *word = &all[i][1 + round * 37 % (WORDS - 2)];
        *word += round;
    }
    CHECK(memcmp(anonymous, of_file, WORDS * sizeof(long)) == 0);
    CHECK(memcmp(anonymous, of_memory[1], WORDS * sizeof(long)) == 0);
    long text;
    CHECK(pread(memory_file, &text, sizeof text, 0) == sizeof text && text == round + 1);
    CHECK(lseek(memory_file, 0, SEEK_CUR) == (off_t)round);
    CHECK(read(memory_file, &text, 1) == 1);
}

int main(int argc, char **argv)
{
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    seed = 17 + (unsigned)rank;
    open_pairs();
    open_sources();
    open_loop();
    open_memory();
    fill();
    for (long round = 0;; round++) {
        through_pairs(round);
        through_sources(round);
        through_memory(round);
        uint64_t mine = piped.received + paired.received + echoed.received, all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (round < rounds && round % 20 == 0)
            printf("round %ld: %llu\n", round, (unsigned long long)all);
        int go_on = round + 1 < rounds || (argc > 2 && access(argv[2], F_OK) != 0), any = 0;
        MPI_Allreduce(&go_on, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (!any)
            break;
    }
    char text[8];
    CHECK(read(ended, text, sizeof text) == 3 && memcmp(text, "end", 3) == 0);
    CHECK(read(ended, text, sizeof text) == 0);
    CHECK(read(half[1], text, sizeof text) == 4 && memcmp(text, "half", 4) == 0);
    CHECK(read(half[1], text, sizeof text) == 0);
    uint64_t before = full.sent;
    get_some(&full, 0);
    CHECK(before > 100 && full.received == before);
    /* A rollback from here makes the file again. */
    CHECK(munmap(of_file, WORDS * sizeof(long)) == 0);
    CHECK(shm_unlink(path) == 0 || errno == ENOENT);
    printf("rank %d is through\n", rank);
    MPI_Finalize();
    return 0;
}
