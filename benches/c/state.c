/* Programs with much memory, of which they modify a part: what checkpoints cost them.
 *
 *   state stencil|cg MB PERCENT STEPS   so many megabytes per rank, of which each step writes so much; prints a
 *                                       sum bit by bit, the same in every run
 *   state pairs MB PERCENT STEPS        the same memory; each odd rank paces its neighbour, and nobody else waits for
 *                                       them. Each rank prints "took<TAB>RANK<TAB>seconds"
 *   state faults MB SECONDS [THREADS]   writes to each page again and again; prints "copy<TAB>microseconds" that a
 *                                       page costs more in a pass in which it had to be copied. So many further
 *                                       threads sleep, a millisecond at a time
 *   state floor MB COUNT                no MPI: four processes fork at once; prints "floor<TAB>milliseconds" from
 *                                       there to a byte from the last child, for each of COUNT times */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HALO = 512, PAGE = 4096, PASSES = 100000 };

static int rank, size;

static void die(const char *what)
{
    fprintf(stderr, "state: %s\n", what);
    exit(2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Processor seconds of this process. */
static double busy(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *memory(size_t bytes)
{
    char *p = malloc(bytes + PAGE);
    if (!p)
        die("out of memory");
    memset(p, 0, bytes + PAGE);
    return p;
}

/* Memory that is only read, as numbers: what the percentage leaves, at least a page. */
static double *still;
static size_t stills;

static double *prepare(size_t bytes, int percent, size_t *numbers)
{
    size_t live = bytes / 100 * percent;
    stills = (bytes - live) / sizeof *still;
    if (stills < PAGE)
        stills = PAGE;
    still = memory(stills * sizeof *still);
    for (size_t i = 0; i < stills; i++)
        still[i] = 1e-3 * (double)((i * 7 + rank) % 13);
    *numbers = live / sizeof *still;
    return memory(live);
}

static double all(double mine)
{
    double sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static double stencil(size_t bytes, int percent, int steps)
{
    size_t n;
    double *live = prepare(bytes, percent, &n), *a = live, *b = live + n / 2, sum = 0;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    n /= 2;
    if (n < 2 * HALO)
        die("too little memory");
    for (size_t i = 0; i < n; i++)
        a[i] = (double)((i + rank) % 17);
    for (int step = 0; step < steps; step++) {
        MPI_Sendrecv(a + n - 2 * HALO, HALO, MPI_DOUBLE, next, 0, a, HALO, MPI_DOUBLE, before, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        size_t at = (size_t)step * n % (stills - n % stills);
        for (size_t i = 1; i + 1 < n; i++) {
            b[i] = 0.25 * (a[i - 1] + 2 * a[i] + a[i + 1]) + still[at];
            at = at + 1 < stills ? at + 1 : 0;
        }
        double *swap = a;
        a = b;
        b = swap;
    }
    for (size_t i = 0; i < n; i += 101)
        sum += a[i];
    return all(sum);
}

static double cg(size_t bytes, int percent, int steps)
{
    size_t n;
    double *live = prepare(bytes, percent, &n), rr = 0, sum = 0;
    n /= 4;
    double *x = live, *r = x + n, *p = r + n, *q = p + n;
    for (int step = 0; step < steps; step++) {
        if (step % 50 == 0) {
            double mine = 0;
            for (size_t i = 0; i < n; i++) {
                r[i] = p[i] = 1 + (double)((i + rank) % 11);
                mine += r[i] * r[i];
            }
            rr = all(mine);
        }
        double mine = 0;
        for (size_t i = 0, at = 0; i < n; i++) {
            double left = i > 0 ? p[i - 1] : 0, right = i + 1 < n ? p[i + 1] : 0;
            q[i] = (4 + still[at]) * p[i] - left - right;
            mine += p[i] * q[i];
            at = at + 1 < stills ? at + 1 : 0;
        }
        double alpha = rr / all(mine), before = rr;
        mine = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            mine += r[i] * r[i];
        }
        rr = all(mine);
        for (size_t i = 0; i < n; i++)
            p[i] = r[i] + rr / before * p[i];
    }
    for (size_t i = 0; i < n; i += 101)
        sum += x[i];
    return all(sum);
}

/* A step of an odd rank takes a millisecond and more, in which it sleeps; the even one waits. */
static double pairs(size_t bytes, int percent, int steps)
{
    const struct timespec moment = {0, 1000000};
    size_t n;
    double *live = prepare(bytes, percent, &n), message[HALO] = {0}, sum = 0, begun = now();
    int partner = rank ^ 1;
    if (partner >= size)
        die("an odd number of ranks");
    for (int step = 0; step < steps; step++) {
        if (rank % 2) {
            nanosleep(&moment, NULL);
            MPI_Send(message, HALO, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(message, HALO, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(message, HALO, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            message[step % HALO] += 1;
            MPI_Send(message, HALO, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD);
        }
        live[(size_t)step * HALO % n] += message[step % HALO];
    }
    printf("took\t%d\t%.4f\n", rank, now() - begun);
    for (size_t i = 0; i < n; i += HALO)
        sum += live[i];
    return all(sum);
}

static void *sleeps(void *nothing)
{
    const struct timespec moment = {0, 1000000};
    for (;;)
        nanosleep(&moment, NULL);
    return nothing;
}

/* They end with the process. */
static void start_threads(int count)
{
    pthread_t thread;
    for (int i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, sleeps, NULL))
            die("no thread");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static long minor(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void faults(size_t bytes, double seconds)
{
    char *p = memory(bytes);
    double *calm = memory(PASSES * sizeof *calm), *dear = memory(PASSES * sizeof *dear);
    double *copied = memory(PASSES * sizeof *copied), begun = now();
    int calms = 0, dears = 0;
    for (int i = 0; i < PASSES && all(now() - begun < seconds) > 0; i++) {
        long before = minor();
        double start = busy();
        for (size_t at = 0; at < bytes; at += PAGE)
            p[at]++;
        double took = busy() - start, pages = minor() - before;
        if (pages * PAGE > bytes / 4) {
            copied[dears] = pages;
            dear[dears++] = took;
        } else if (pages * PAGE < bytes / 100)
            calm[calms++] = took;
    }
    if (!calms || !dears)
        die("no pass with or none without copies");
    qsort(calm, calms, sizeof *calm, ascending);
    for (int i = 0; i < dears; i++)
        dear[i] = (dear[i] - calm[calms / 2]) / copied[i] * 1e6;
    qsort(dear, dears, sizeof *dear, ascending);
    if (rank == 0)
        printf("copy\t%.4f\n", dear[dears / 2]);
}

static void floor_of(size_t bytes, int count)
{
    int go[2], done[2];
    if (pipe(go) || pipe(done))
        die("no pipe");
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            char *p = memory(bytes), c;
            for (size_t at = 0; at < bytes; at += PAGE)
                p[at] = 1;
            if (write(done[1], "r", 1) != 1)
                _exit(1);
            while (read(go[0], &c, 1) == 1 && c == 'g') {
                pid_t child = fork();
                if (child == 0)
                    _exit(write(done[1], "c", 1) != 1);
                waitpid(child, NULL, 0);
                if (write(done[1], "e", 1) != 1)
                    _exit(1);
            }
            _exit(0);
        }
    char c;
    for (int i = 0; i < 4; i++)
        if (read(done[0], &c, 1) != 1)
            die("a process ended");
    for (int k = 0; k < count; k++) {
        double start = now(), last = start;
        if (write(go[1], "gggg", 4) != 4)
            die("no start");
        for (int children = 0, ends = 0; children < 4 || ends < 4;) {
            if (read(done[0], &c, 1) != 1)
                die("a process ended");
            if (c == 'c') {
                children++;
                last = now();
            } else
                ends++;
        }
        printf("floor\t%.4f\n", (last - start) * 1e3);
    }
    if (write(go[1], "xxxx", 4) != 4)
        die("no end");
    while (wait(NULL) > 0)
        ;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("wrong arguments");
    size_t bytes = (size_t)atol(argv[2]) << 20;
    if (!strcmp(argv[1], "floor")) {
        floor_of(bytes, atoi(argv[3]));
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(argv[1], "faults")) {
        start_threads(argc > 4 ? atoi(argv[4]) : 0);
        faults(bytes, atof(argv[3]));
    } else if (argc > 4) {
        int percent = atoi(argv[3]), steps = atoi(argv[4]);
        double sum = !strcmp(argv[1], "cg")      ? cg(bytes, percent, steps)
                     : !strcmp(argv[1], "pairs") ? pairs(bytes, percent, steps)
                                                 : stencil(bytes, percent, steps);
        if (rank == 0)
            printf("sum\t%a\n", sum);
    } else
        die("wrong arguments");
    MPI_Finalize();
    return 0;
}
