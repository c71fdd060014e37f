/* Parts of applications, beyond the time of a call: received data is read, and ranks compute. Rank
 * 0 prints "name<TAB>bytes<TAB>value", microseconds of the slowest rank.
 *
 *   apps ring      BYTES ITERS  each rank sends to the next, receives from the one before, and sums what it received
 *   apps alltoallv BYTES ITERS  blocks of unequal lengths, BYTES of each rank in all, which the receivers sum
 *   apps is        BYTES ITERS  the exchange of NPB's integer sort: bucket sizes, counts, keys, then the keys are counted
 *   apps after     BYTES ITERS  100 messages to the next rank and back that follow a checkpoint at once, each touching
 *                               memory; per message.  Where there are no checkpoints it follows a barrier.
 *   apps first     BYTES ITERS  from the first send to a peer, after which the sender computes for 20 ms, to its receipt
 *
 * It knows nothing of the library it runs on, except that one may have MPIX_Checkpoint. A wrong sum
 * fails. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "session.h"

extern int MPIX_Checkpoint(void) __attribute__((weak));

static int rank, size;

static void die(const char *what)
{
    fprintf(stderr, "apps: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static unsigned *words(size_t count, unsigned fill)
{
    unsigned *p = malloc(count * sizeof *p + 1);
    if (!p)
        die("out of memory");
    for (size_t i = 0; i < count; i++)
        p[i] = fill;
    return p;
}

static unsigned sum(const unsigned *p, size_t count)
{
    unsigned s = 0;
    for (size_t i = 0; i < count; i++)
        s += p[i];
    return s;
}

static void ring(size_t count, int iters, double *start)
{
    unsigned *mine = words(count, rank + 1), *theirs = words(count, 0);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            *start = now();
        MPI_Sendrecv(mine, (int)count, MPI_UNSIGNED, next, 1, theirs, (int)count, MPI_UNSIGNED, previous, 1,
            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (sum(theirs, count) != (unsigned)count * (previous + 1))
            die("wrong sum");
    }
    free(mine);
    free(theirs);
}

/* Words from one rank to another: unequal, and `each` on average. */
static int share(int from, int to, int each)
{
    return each + each / 2 * ((from + to) % 2 ? 1 : -1) * (size % 2 ? 0 : 1);
}

static void layout(int each, int *send, int *sent, int *receive, int *received)
{
    for (int i = 0; i < size; i++) {
        send[i] = share(rank, i, each);
        receive[i] = share(i, rank, each);
        sent[i] = i ? sent[i - 1] + send[i - 1] : 0;
        received[i] = i ? received[i - 1] + receive[i - 1] : 0;
    }
}

static void alltoallv(size_t count, int iters, double *start)
{
    int *send = malloc(4 * size * sizeof *send);
    int *sent = send + size, *receive = sent + size, *received = receive + size;
    layout((int)(count / size), send, sent, receive, received);
    size_t out = sent[size - 1] + send[size - 1], in = received[size - 1] + receive[size - 1];
    unsigned *mine = words(out, rank + 1), *theirs = words(in, 0), want = 0;
    for (int i = 0; i < size; i++)
        want += (unsigned)receive[i] * (i + 1);
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            *start = now();
        }
        MPI_Alltoallv(mine, send, sent, MPI_UNSIGNED, theirs, receive, received, MPI_UNSIGNED, MPI_COMM_WORLD);
        if (sum(theirs, in) != want)
            die("wrong sum");
    }
    free(mine);
    free(theirs);
    free(send);
}

#define BUCKETS 1024
#define KEYS (1u << 21)

/* One iteration of IS (NPB 3.4): sizes of buckets, counts, keys; the last step ranks the received
 * keys. */
static void sort_once(unsigned *keys, unsigned *theirs, size_t count, unsigned *ranks, int *counts)
{
    static int mine[BUCKETS], all[BUCKETS];
    int *send = counts, *sent = send + size, *receive = sent + size, *received = receive + size;
    memset(mine, 0, sizeof mine);
    for (size_t i = 0; i < count; i++)
        mine[keys[i] / (KEYS / BUCKETS)]++;
    MPI_Allreduce(mine, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        send[i] = (int)(count / size);
    MPI_Alltoall(send, 1, MPI_INT, receive, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        sent[i] = i ? sent[i - 1] + send[i - 1] : 0;
        received[i] = i ? received[i - 1] + receive[i - 1] : 0;
    }
    MPI_Alltoallv(keys, send, sent, MPI_UNSIGNED, theirs, receive, received, MPI_UNSIGNED, MPI_COMM_WORLD);
    memset(ranks, 0, KEYS * sizeof *ranks);
    for (size_t i = 0; i < count; i++)
        ranks[theirs[i]]++;
    if (sum(ranks, KEYS) != count)
        die("keys are missing");
}

static void is(size_t count, int iters, double *start)
{
    count -= count % size;
    unsigned *keys = words(count, 0), *theirs = words(count, 0), *ranks = words(KEYS, 0), seed = rank + 1;
    int *counts = malloc(4 * size * sizeof *counts);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        keys[i] = seed >> 11;
    }
    for (int i = -1; i < iters; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            *start = now();
        }
        sort_once(keys, theirs, count, ranks, counts);
    }
    free(keys);
    free(theirs);
    free(ranks);
    free(counts);
}

static double after(size_t bytes, int iters)
{
    const int calls = 100;
    const size_t memory = 64 << 20;
    char *state = malloc(memory), *mine = malloc(bytes + 1), *theirs = malloc(bytes + 1);
    if (!state || !mine || !theirs)
        die("out of memory");
    memset(state, rank, memory);
    memset(mine, rank, bytes);
    int other = rank ^ 1;
    double took = 0;
    for (int i = 0; i < iters; i++) {
        if (MPIX_Checkpoint && MPIX_Checkpoint() != MPI_SUCCESS)
            die("no checkpoint");
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int c = 0; c < calls && other < size; c++) {
            state[(size_t)c * 4096 * 97 % memory]++;
            MPI_Sendrecv(mine, (int)bytes, MPI_CHAR, other, 1, theirs, (int)bytes, MPI_CHAR, other, 1,
                MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        took += (now() - start) / calls;
    }
    free(state);
    free(mine);
    free(theirs);
    return took / iters;
}

static double first(size_t bytes)
{
    double *mine = calloc(1, bytes + sizeof *mine), *theirs = calloc(1, bytes + sizeof *theirs);
    if (!mine || !theirs)
        die("out of memory");
    int n = (int)(bytes + sizeof *mine);
    MPI_Request request;
    MPI_Irecv(theirs, n, MPI_BYTE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
    double took = 0;
    if (rank == 0) {
        mine[0] = now();
        MPI_Send(mine, n, MPI_BYTE, 1 % size, 1, MPI_COMM_WORLD);
        while (now() - mine[0] < 20000)
            ;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        took = now() - theirs[0];
        mine[0] = now();
        MPI_Send(mine, n, MPI_BYTE, (rank + 1) % size, 1, MPI_COMM_WORLD);
        while (now() - mine[0] < 20000)
            ;
    }
    free(mine);
    free(theirs);
    return took;
}

int main(int argc, char **argv)
{
    own_session();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 3 ? argv[1] : "";
    size_t bytes = argc > 3 ? (size_t)atol(argv[2]) : 0;
    int iters = argc > 3 ? atoi(argv[3]) : 1;
    double start = 0, mine, worst = 0;
    if (!strcmp(what, "after"))
        mine = after(bytes, iters);
    else if (!strcmp(what, "first"))
        mine = first(bytes);
    else {
        if (!strcmp(what, "ring"))
            ring(bytes / sizeof(unsigned), iters, &start);
        else if (!strcmp(what, "alltoallv"))
            alltoallv(bytes / sizeof(unsigned), iters, &start);
        else if (!strcmp(what, "is"))
            is(bytes / sizeof(unsigned), iters, &start);
        else
            die("no such measurement");
        mine = (now() - start) / iters;
    }
    MPI_Reduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\t%ld\t%.6f\n", what, (long)bytes, worst);
    MPI_Finalize();
    return 0;
}
