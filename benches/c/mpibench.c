/* One measurement of one MPI, printed as "name<TAB>bytes<TAB>value" lines by rank 0.
 *
 *   mpibench lat  BYTES ITERS        one-way latency of a ping-pong, microseconds
 *   mpibench anylat BYTES ITERS      the same with MPI_ANY_SOURCE
 *   mpibench bw   BYTES WINDOW ITERS MB/s of windows of MPI_Isend, answered by one small message
 *   mpibench bibw BYTES WINDOW ITERS MB/s of both directions together, windows of both ranks at the same time
 *   mpibench rate BYTES WINDOW ITERS million messages per second, same pattern
 *   mpibench burst BYTES ITERS       64 blocking sends, their receives, and an answer: microseconds per message
 *   mpibench COLLECTIVE BYTES ITERS [MS]  microseconds per call (see one_collective); with MS, fewer calls where so
 *                                    many would take more milliseconds
 *   mpibench idle                    resident kilobytes of an idle rank (largest of all ranks)
 *
 * It knows nothing of the library it runs on.  Buffers are checked once after each
 * measurement, so a fast wrong answer fails. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "session.h"

static int rank, size;

static void die(const char *what)
{
    fprintf(stderr, "mpibench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static char *buffer(size_t n, int fill)
{
    char *p = malloc(n ? n : 1);
    if (!p)
        die("out of memory");
    memset(p, fill, n ? n : 1);
    return p;
}

static void report(const char *name, long bytes, double value)
{
    if (rank == 0)
        printf("%s\t%ld\t%.6f\n", name, bytes, value);
}

static void check(const char *p, size_t n, int fill)
{
    for (size_t i = 0; i < n; i += n > 4096 ? 509 : 1)
        if (p[i] != (char)fill)
            die("wrong data received");
}

static double pingpong(char *mine, char *theirs, int n, int iters, int any)
{
    double start = 0;
    int from = any ? MPI_ANY_SOURCE : 1 - rank;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(mine, n, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(theirs, n, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(theirs, n, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(mine, n, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / iters / 2 * 1e6;
}

static void latency(const char *name, long n, int iters)
{
    char *mine = buffer(n, 'a' + rank), *theirs = buffer(n, 0);
    double us = pingpong(mine, theirs, (int)n, iters, !strcmp(name, "anylat"));
    if (rank < 2)
        check(theirs, n, 'a' + (1 - rank));
    report(name, n, us);
    free(mine);
    free(theirs);
}

/* Seconds for `iters` windows from rank 0 to rank 1. */
static double windows(char *buf, long n, int window, int iters)
{
    MPI_Request *req = malloc(sizeof *req * window);
    char token = 0;
    double start = 0;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            start = MPI_Wtime();
        for (int w = 0; w < window; w++)
            if (rank == 0)
                MPI_Isend(buf, (int)n, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &req[w]);
            else
                MPI_Irecv(buf, (int)n, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &req[w]);
        MPI_Waitall(window, req, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&token, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&token, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
    free(req);
    return MPI_Wtime() - start;
}

/* Seconds for `iters` windows from each rank to the other at the same time. */
static double exchanges(char *mine, char *theirs, long n, int window, int iters)
{
    MPI_Request *req = malloc(sizeof *req * window * 2);
    double start = 0;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            start = MPI_Wtime();
        for (int w = 0; w < window; w++)
            MPI_Irecv(theirs, (int)n, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, &req[w]);
        for (int w = 0; w < window; w++)
            MPI_Isend(mine, (int)n, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, &req[window + w]);
        MPI_Waitall(2 * window, req, MPI_STATUSES_IGNORE);
    }
    free(req);
    return MPI_Wtime() - start;
}

static void both_ways(long n, int window, int iters)
{
    if (rank > 1)
        return;
    char *mine = buffer(n, 'a' + rank), *theirs = buffer(n, 0);
    double s = exchanges(mine, theirs, n, window, iters);
    check(theirs, n, 'a' + (1 - rank));
    report("bibw", n, 2.0 * window * iters * n / s / 1e6);
    free(mine);
    free(theirs);
}

static void stream(const char *name, long n, int window, int iters)
{
    if (rank > 1)
        return;
    char *buf = buffer(n, rank == 0 ? 'x' : 0);
    double s = windows(buf, n, window, iters);
    if (rank == 1)
        check(buf, n, 'x');
    double messages = (double)window * iters;
    report(name, n, name[0] == 'b' ? messages * n / s / 1e6 : messages / s / 1e6);
    free(buf);
}

static void burst(long n, int iters)
{
    char *buf = buffer(n, 'x'), token = 0;
    double start = 0;
    for (int i = -iters / 10 - 1; i < iters && rank < 2; i++) {
        if (i == 0)
            start = MPI_Wtime();
        for (int m = 0; m < 64; m++)
            if (rank == 0)
                MPI_Send(buf, (int)n, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            else
                MPI_Recv(buf, (int)n, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Recv(&token, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&token, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
    check(buf, n, 'x');
    report("burst", n, (MPI_Wtime() - start) / iters / 64 * 1e6);
    free(buf);
}

static void one_collective(const char *name, char *in, char *out, long n)
{
    if (!strcmp(name, "allreduce"))
        MPI_Allreduce(in, out, (int)(n / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "alltoall"))
        MPI_Alltoall(in, (int)n, MPI_CHAR, out, (int)n, MPI_CHAR, MPI_COMM_WORLD);
    else if (!strcmp(name, "allgather"))
        MPI_Allgather(in, (int)n, MPI_CHAR, out, (int)n, MPI_CHAR, MPI_COMM_WORLD);
    else if (!strcmp(name, "bcast"))
        MPI_Bcast(in, (int)n, MPI_CHAR, 0, MPI_COMM_WORLD);
    else if (!strcmp(name, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(name, "reduce"))
        MPI_Reduce(in, out, (int)(n / 8), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (!strcmp(name, "reduce_scatter"))
        MPI_Reduce_scatter_block(in, out, (int)(n / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "scan"))
        MPI_Scan(in, out, (int)(n / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "exscan"))
        MPI_Exscan(in, out, (int)(n / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "gather"))
        MPI_Gather(in, (int)n, MPI_CHAR, out, (int)n, MPI_CHAR, 0, MPI_COMM_WORLD);
    else if (!strcmp(name, "scatter"))
        MPI_Scatter(in, (int)n, MPI_CHAR, out, (int)n, MPI_CHAR, 0, MPI_COMM_WORLD);
    else
        die("no such measurement");
}

/* How many calls to measure: a few calls show the time of one, once all links are established. */
static int fitting(const char *name, char *in, char *out, long n, int iters, long ms)
{
    const int warm = 3, tries = 7;
    double start = 0;
    for (int i = -warm; i < tries; i++) {
        if (i == 0)
            start = MPI_Wtime();
        one_collective(name, in, out, n);
    }
    double most = ms * 1e-3 / ((MPI_Wtime() - start) / tries + 1e-9);
    int fit = most < 10 ? 10 : most < iters ? (int)most : iters;
    MPI_Bcast(&fit, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return fit;
}

static void collective(const char *name, long n, int iters, long ms)
{
    char *in = buffer(n * size, 0), *out = buffer(n * size, 0);
    if (!strcmp(name, "allreduce"))
        for (long i = 0; i < n / 8; i++)
            ((double *)in)[i] = rank + 1;
    if (ms > 0)
        iters = fitting(name, in, out, n, iters, ms);
    double start = 0;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        one_collective(name, in, out, n);
    }
    double mine = (MPI_Wtime() - start) / iters * 1e6, worst = 0;
    if (!strcmp(name, "allreduce") && n >= 8 && ((double *)out)[0] != size * (size + 1) / 2.0)
        die("wrong sum");
    MPI_Reduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    report(name, n, worst);
    free(in);
    free(out);
}

static void idle(void)
{
    char line[256];
    double kb = 0, most = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmRSS:", 6))
            kb = atof(line + 6);
    if (f)
        fclose(f);
    MPI_Reduce(&kb, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    report("idle", 0, most);
}

int main(int argc, char **argv)
{
    own_session();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long a[3] = {0, 0, 0};
    for (int i = 0; i < 3 && i + 2 < argc; i++)
        a[i] = atol(argv[i + 2]);
    const char *what = argc > 1 ? argv[1] : "idle";
    if (!strcmp(what, "lat") || !strcmp(what, "anylat"))
        latency(what, a[0], (int)a[1]);
    else if (!strcmp(what, "bw") || !strcmp(what, "rate"))
        stream(what, a[0], (int)a[1], (int)a[2]);
    else if (!strcmp(what, "bibw"))
        both_ways(a[0], (int)a[1], (int)a[2]);
    else if (!strcmp(what, "burst"))
        burst(a[0], (int)a[1]);
    else if (!strcmp(what, "idle"))
        idle();
    else
        collective(what, a[0], (int)a[1], a[2]);
    MPI_Finalize();
    return 0;
}
