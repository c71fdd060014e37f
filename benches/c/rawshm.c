/* The floor: messages through memory that two processes share, spinning, no message layer at all.
 *
 *   rawshm lat BYTES ITERS          one-way latency, microseconds: copied in, announced by a number, copied out
 *   rawshm bw  BYTES WINDOW ITERS   MB/s of one memcpy at a time from one process's memory to its own
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of one direction: the number of the message on the line where a short one lies. */
struct side {
    _Atomic long number;
    char body[];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void put(struct side *to, const char *from, long n, long number)
{
    memcpy(to->body, from, n);
    atomic_store_explicit(&to->number, number, memory_order_release);
}

static void get(struct side *from, char *to, long n, long number)
{
    while (atomic_load_explicit(&from->number, memory_order_acquire) != number)
        ;
    memcpy(to, from->body, n);
}

static double latency(long n, long iters)
{
    size_t room = (sizeof(struct side) + n + 4095) / 4096 * 4096;
    char *memory = mmap(NULL, 2 * room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    struct side *there = (struct side *)memory, *back = (struct side *)(memory + room);
    char *mine = malloc(n), *theirs = malloc(n);
    if (!mine || !theirs)
        die("malloc");
    memset(mine, 'a', n);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    double start = 0;
    long warm = iters / 10 + 1;
    for (long i = 1; i <= warm + iters; i++) {
        if (i == warm + 1)
            start = now();
        if (child) {
            put(there, mine, n, i);
            get(back, theirs, n, i);
        } else {
            get(there, theirs, n, i);
            put(back, mine, n, i);
        }
    }
    double us = (now() - start) / iters / 2 * 1e6;
    if (!child)
        _exit(0);
    int status;
    if (waitpid(child, &status, 0) < 0 || status != 0 || (n > 0 && theirs[n - 1] != 'a'))
        die("the other process");
    return us;
}

static double bandwidth(long n, long messages)
{
    char *from = malloc(n), *to = malloc(n);
    if (!from || !to)
        die("malloc");
    memset(from, 'x', n);
    memset(to, 0, n);
    double start = now();
    for (long i = 0; i < messages; i++) {
        memcpy(to, from, n);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
    return (double)n * messages / (now() - start) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: rawshm lat BYTES ITERS | bw BYTES WINDOW ITERS\n");
        return 2;
    }
    long n = atol(argv[2]), a = atol(argv[3]), b = argc > 4 ? atol(argv[4]) : 1;
    double value = strcmp(argv[1], "lat") == 0 ? latency(n, a) : bandwidth(n, a * b);
    printf("%s\t%ld\t%.6f\n", argv[1], n, value);
    return 0;
}
