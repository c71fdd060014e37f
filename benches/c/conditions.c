/* What two processes of this machine pay for each other's memory. On virtual machines it changes.
 *
 *   conditions ring   MB/s of plain copies through a ring of 64 KiB, by two processes
 *   conditions read   MB/s of process_vm_readv, of 1 MiB that the other process has just written;
 *                     0: not allowed
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 16 << 10, RING = 4 * STEP, BODY = 1 << 20, STEPS = 4096, READS = 60 };

struct shared {
    _Alignas(128) _Atomic long written;
    _Alignas(128) _Atomic long taken;
    _Alignas(4096) char ring[RING];
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

static void until(_Atomic long *number, long least)
{
    while (atomic_load_explicit(number, memory_order_acquire) < least)
        ;
}

static void fill_ring(struct shared *s, const char *from)
{
    for (long i = 0; i < STEPS; i++) {
        until(&s->taken, i - RING / STEP + 1);
        memcpy(s->ring + i * STEP % RING, from, STEP);
        atomic_store_explicit(&s->written, i + 1, memory_order_release);
    }
}

static double empty_ring(struct shared *s, char *to)
{
    until(&s->written, 1);
    double start = now();
    for (long i = 0; i < STEPS; i++) {
        until(&s->written, i + 1);
        memcpy(to, s->ring + i * STEP % RING, STEP);
        atomic_store_explicit(&s->taken, i + 1, memory_order_release);
    }
    return (double)STEPS * STEP / (now() - start) / 1e6;
}

static void write_bodies(struct shared *s, char *body)
{
    for (long i = 0; i < READS; i++) {
        memset(body, (int)i, BODY);
        atomic_store_explicit(&s->written, i + 1, memory_order_release);
        until(&s->taken, i + 1);
    }
}

static double read_bodies(struct shared *s, pid_t peer, char *body, char *to)
{
    double took = 0;
    struct iovec here = {to, BODY}, there = {body, BODY};
    for (long i = 0; i < READS; i++) {
        until(&s->written, i + 1);
        double start = now();
        if (process_vm_readv(peer, &here, 1, &there, 1, 0) != BODY)
            took = -1e9;
        took += now() - start;
        atomic_store_explicit(&s->taken, i + 1, memory_order_release);
    }
    return took > 0 ? (double)READS * BODY / took / 1e6 : 0;
}

int main(int argc, char **argv)
{
    int ring = argc == 2 && strcmp(argv[1], "ring") == 0;
    if (!ring && (argc != 2 || strcmp(argv[1], "read") != 0)) {
        fprintf(stderr, "usage: conditions ring | read\n");
        return 2;
    }
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
    struct shared *s = mmap(NULL, sizeof *s, protection, flags, -1, 0);
    char *body = malloc(BODY), *to = malloc(BODY);
    if (s == MAP_FAILED || !body || !to)
        die("memory");
    memset(body, 'a', BODY);
    memset(to, 0, BODY);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    /* Neither waits for longer for the other one. */
    alarm(60);
    if (child == 0) {
        if (ring)
            fill_ring(s, body);
        else
            write_bodies(s, body);
        _exit(0);
    }
    double value = ring ? empty_ring(s, to) : read_bodies(s, child, body, to);
    int status;
    if (waitpid(child, &status, 0) < 0 || status != 0)
        die("the other process");
    printf("%s\t%d\t%.6f\n", argv[1], ring ? STEP : BODY, value);
    return 0;
}
