/* The floor: the same patterns over one raw TCP connection on loopback, non-blocking and
 * spinning, no message layer at all.
 *
 *   rawtcp lat BYTES ITERS          one-way latency, microseconds
 *   rawtcp bw  BYTES WINDOW ITERS   MB/s, a one-byte answer per window
 *   rawtcp memcpy BYTES ITERS       MB/s of memcpy, for scale
 *
 * RAWTCP_CONGESTION names the congestion control of both ends; the system's default when unset.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static void put(int fd, const char *p, long n)
{
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k > 0) {
            p += k;
            n -= k;
        } else if (errno != EAGAIN)
            die("send");
    }
}

static void get(int fd, char *p, long n)
{
    while (n > 0) {
        ssize_t k = recv(fd, p, n, 0);
        if (k > 0) {
            p += k;
            n -= k;
        } else if (k == 0 || errno != EAGAIN)
            die("recv");
    }
}

static int ready(int fd)
{
    int on = 1;
    const char *congestion = getenv("RAWTCP_CONGESTION");
    if (congestion && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)))
        die(congestion);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void pair(int *parent, int *child)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l, (void *)&a, sizeof a) || listen(l, 1) || getsockname(l, (void *)&a, &len))
        die("listen");
    *child = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(*child, (void *)&a, sizeof a))
        die("connect");
    *parent = accept(l, NULL, NULL);
    ready(*parent);
    ready(*child);
    close(l);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: rawtcp lat BYTES ITERS | bw BYTES WINDOW ITERS | memcpy BYTES ITERS\n");
        return 2;
    }
    int bw = !strcmp(argv[1], "bw");
    long n = atol(argv[2]), window = bw ? atol(argv[3]) : 1;
    int iters = atoi(argv[bw && argc > 4 ? 4 : 3]);
    char *buf = malloc(n), *other = malloc(n), token = 0;
    memset(buf, 'x', n);
    memset(other, 'y', n);
    if (!strcmp(argv[1], "memcpy")) {
        double start = now();
        for (int i = 0; i < iters; i++) {
            memcpy(other, buf, n);
            __asm__ volatile("" : : "r"(other) : "memory");
        }
        printf("memcpy\t%ld\t%.6f\n", n, (double)n * iters / (now() - start) / 1e6);
        return 0;
    }
    int up, down;
    pair(&up, &down);
    pid_t pid = fork();
    int fd = pid ? up : down;
    double start = 0;
    for (int i = -iters / 10 - 1; i < iters; i++) {
        if (i == 0)
            start = now();
        for (long w = 0; w < window; w++)
            if (pid)
                put(fd, buf, n);
            else
                get(fd, buf, n);
        if (pid)
            get(fd, bw ? &token : buf, bw ? 1 : n);
        else
            put(fd, bw ? &token : buf, bw ? 1 : n);
    }
    double s = now() - start;
    if (!pid)
        return 0;
    waitpid(pid, NULL, 0);
    printf("%s\t%ld\t%.6f\n", argv[1], n, bw ? (double)n * window * iters / s / 1e6 : s / iters / 2 * 1e6);
    return 0;
}
