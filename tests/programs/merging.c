/* Pairs of mappings beside each other that are one mapping in some rounds and two in others, and
 * whose pages never change. Ends once FILE exists.
 *
 *   merging FILE */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

#define PAIRS 16
#define PAGE 4096
#define HALF (3 * PAGE)

static long *pairs[PAIRS];

/* Word i of a pair. */
static long word(int rank, int pair, long i)
{
    return (rank * PAIRS + pair) * 1000003L + i;
}

static void make(int rank, int pair)
{
    /* Nothing else is mapped beside them. */
    int kind = MAP_PRIVATE | MAP_ANONYMOUS;
    char *room = mmap(NULL, 4 * HALF, PROT_NONE, kind, -1, 0);
    CHECK(room != MAP_FAILED);
    long *at = mmap(room + HALF, 2 * HALF, PROT_READ | PROT_WRITE, kind | MAP_FIXED, -1, 0);
    CHECK(at != MAP_FAILED);
    for (long i = 0; i < 2 * HALF / (long)sizeof *at; i++)
        at[i] = word(rank, pair, i);
    pairs[pair] = at;
}

static void check(int rank, int pair, long round)
{
    long *at = pairs[pair];
    for (long i = 0; i < 2 * HALF / (long)sizeof *at; i++)
        CHECK(at[i] == word(rank, pair, i));
    int apart = (round / (pair + 1)) % 2;
    CHECK(madvise((char *)at + HALF, HALF, apart ? MADV_DONTDUMP : MADV_DODUMP) == 0);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    CHECK(argc > 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int pair = 0; pair < PAIRS; pair++)
        make(rank, pair);
    for (long round = 0; is_closed(argv[1]); round++) {
        for (int pair = 0; pair < PAIRS; pair++)
            check(rank, pair, round);
        usleep(1000);
    }
    printf("rank %d has all its pages\n", rank);
    MPI_Finalize();
    return 0;
}
