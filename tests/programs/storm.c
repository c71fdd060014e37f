/* Every rank sends every other rank a seeded stream of messages of all sizes with all modes;
 * each carries its number and a checksum pattern, so a lost, doubled, overtaken or damaged one
 * fails.  Run with connections being cut, the answer must be the same.
 *
 *   storm SEED ROUNDS */
#include "check.h"

#define MOST 3000000

static int rank, size;

static int length_of(unsigned *state)
{
    switch (next_random(state) % 8) {
    case 0: return 0;
    case 1: return (int)(next_random(state) % 16);
    case 2: return (int)(next_random(state) % 1024);
    case 3: return (int)(next_random(state) % 9000);
    case 4: return (int)(next_random(state) % 70000);
    case 5: return (int)(next_random(state) % 300000);
    case 6: return next_random(state) % 16 ? 100 : (int)(next_random(state) % MOST);
    default: return 8;
    }
}

static void fill(unsigned char *p, int n, unsigned salt)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(salt + (unsigned)i * 7u + ((unsigned)i >> 8));
}

static int right(const unsigned char *p, int n, unsigned salt)
{
    for (int i = 0; i < n; i++)
        if (p[i] != (unsigned char)(salt + (unsigned)i * 7u + ((unsigned)i >> 8)))
            return 0;
    return 1;
}

static void start_send(int mode, unsigned char *p, int n, int to, int tag, MPI_Request *r)
{
    if (mode == 0)
        MPI_Issend(p, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
    else
        MPI_Isend(p, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 50;
    int burst = 4, n = burst * size;
    MPI_Request *sends = malloc(sizeof *sends * n), *recvs = malloc(sizeof *recvs * n);
    unsigned char **out = malloc(sizeof *out * n), **in = malloc(sizeof *in * n);
    int *want = malloc(sizeof *want * n);
    unsigned long long total = 0;
    for (int round = 0; round < rounds; round++) {
        for (int peer = 0; peer < size; peer++) {
            unsigned to = seed + 7919u * (unsigned)(round * size * size + rank * size + peer);
            unsigned from = seed + 7919u * (unsigned)(round * size * size + peer * size + rank);
            for (int b = 0; b < burst; b++) {
                int i = peer * burst + b, len = length_of(&to);
                int expected = length_of(&from);
                unsigned mode = next_random(&to) % 5;
                (void)next_random(&from); /* the peer's mode */
                out[i] = malloc(len + 1);
                in[i] = malloc(expected + 1);
                want[i] = expected;
                fill(out[i], len, seed + round + rank * 31 + b);
                MPI_Irecv(in[i], expected, MPI_BYTE, peer, b % 2, MPI_COMM_WORLD, &recvs[i]);
                start_send((int)mode, out[i], len, peer, b % 2, &sends[i]);
            }
        }
        MPI_Status *status = malloc(sizeof *status * n);
        MPI_Waitall(n, recvs, status);
        MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++) {
            int got;
            MPI_Get_count(&status[i], MPI_BYTE, &got);
            CHECK(got == want[i]);
            CHECK(status[i].MPI_SOURCE == i / burst);
            CHECK(right(in[i], want[i], seed + round + (i / burst) * 31 + i % burst));
            total += (unsigned long long)got;
            free(in[i]);
            free(out[i]);
        }
        free(status);
    }
    unsigned long long all = 0;
    MPI_Allreduce(&total, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("storm seed %u: %d ranks, %d rounds, %llu bytes\n", seed, size, rounds, all);
    MPI_Finalize();
    return 0;
}
