/* Two ranks exchange long messages, which differ in each round and rank, and check every word. With
 * `turns` each waits while the other receives. If a FILE is named, they continue after their rounds
 * until it exists.
 *
 *   giants [MEBIBYTES [ROUNDS [turns|both [FILE]]]] */
#include "check.h"
#include <stdint.h>
#include <unistd.h>

/* Whether both are through: the first says so. */
static int over(int rank, int at_least, const char *file)
{
    int over = at_least;
    if (over && file) {
        over = rank == 0 && access(file, F_OK) == 0;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return over;
}

static uint64_t word(uint64_t rank, uint64_t round, uint64_t at)
{
    return (at + 1) * 0x9e3779b97f4a7c15ull ^ rank << 60 ^ round << 40;
}

int main(int argc, char **argv)
{
    int rank, size, count = (argc > 1 ? atoi(argv[1]) : 32) << 17, rounds = argc > 2 ? atoi(argv[2]) : 10;
    int turns = argc > 3 && strcmp(argv[3], "turns") == 0;
    const char *file = argc > 4 ? argv[4] : NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size == 2);
    uint64_t *out = malloc(count * sizeof *out), *in = malloc(count * sizeof *in);
    CHECK(out && in);
    for (int round = 0; !over(rank, round >= rounds, file); round++) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int sends = !turns || round % 2 == rank, receives = !turns || !sends;
        memset(in, 0xee, count * sizeof *in);
        for (int at = 0; at < count; at++)
            out[at] = word(rank, round, at);
        if (receives)
            MPI_Irecv(in, count, MPI_UINT64_T, !rank, 1, MPI_COMM_WORLD, requests);
        if (sends)
            MPI_Isend(out, count, MPI_UINT64_T, !rank, 1, MPI_COMM_WORLD, requests + 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        uint64_t sum = 0;
        for (int at = 0; at < count && receives; at++) {
            CHECK(in[at] == word(!rank, round, at));
            sum = sum * 31 + in[at];
        }
        printf("rank %d: round %d, %016llx\n", rank, round, (unsigned long long)sum);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
