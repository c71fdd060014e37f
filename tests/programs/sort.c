/* A sample sort of random keys, again and again: all-to-all exchanges of uneven sizes.  Each
 * round's keys depend on what the round before left, so a lost or doubled message changes all
 * that follows.
 *
 *   sort [KEYS per rank [ROUNDS]] */
#include "check.h"

static int rank, size;

static int order(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

static unsigned long long mix(unsigned long long h, unsigned long long v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* Sorts `keys` over all ranks; gives the number of keys that are mine now. */
static int sort(unsigned *keys, int n, unsigned **out)
{
    int *counts = calloc(4 * (size_t)size, sizeof *counts), *from = counts + size;
    int *starts = from + size, *at = starts + size;
    /* Keys are uniform: equal slices of their range are good enough. */
    for (int i = 0; i < n; i++)
        counts[(unsigned long long)keys[i] * size >> 32]++;
    qsort(keys, n, sizeof *keys, order);
    MPI_Alltoall(counts, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    int total = 0;
    for (int i = 0, s = 0; i < size; i++) {
        starts[i] = s, s += counts[i];
        at[i] = total, total += from[i];
    }
    *out = malloc((size_t)(total + 1) * sizeof **out);
    CHECK(*out);
    MPI_Alltoallv(keys, counts, starts, MPI_UNSIGNED, *out, from, at, MPI_UNSIGNED,
                  MPI_COMM_WORLD);
    qsort(*out, total, sizeof **out, order);
    free(counts);
    return total;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = argc > 1 ? atoi(argv[1]) : 50000, rounds = argc > 2 ? atoi(argv[2]) : 20;
    unsigned *keys = malloc((size_t)n * sizeof *keys), *mine;
    CHECK(keys);
    unsigned long long state = rank + 1;
    for (int round = 1; round <= rounds; round++) {
        unsigned long long sum = 0, all = 0, gone = 0;
        for (int i = 0; i < n; i++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            keys[i] = state >> 32;
            sum += keys[i];
        }
        int got = sort(keys, n, &mine);
        unsigned long long hash = round, kept = 0;
        for (int i = 0; i < got; i++) {
            CHECK(i == 0 || mine[i - 1] <= mine[i]);
            hash = mix(hash, mine[i]);
            kept += mine[i];
        }
        MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Reduce(&kept, &gone, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            CHECK(all == gone);
        state = mix(state, hash);
        printf("rank %d round %d keys %d hash %016llx\n", rank, round, got, hash);
        free(mine);
    }
    free(keys);
    MPI_Finalize();
    return 0;
}
