/* One rank streams long messages to the other, in two halves.  Between them both
 * ask for a checkpoint, and wait for a file.
 *
 *   stream MEGABYTES GATE
 *
 * No message is like another, and none gets shorter when it is compressed. */
#include "check.h"
#include <stdint.h>
#include <unistd.h>

enum { WORDS = 1 << 17 };

static void fill(uint64_t *words, uint64_t number)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (number + 1);
    for (int i = 0; i < WORDS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = state;
    }
}

static void half(int rank, int part, int count)
{
    static uint64_t words[WORDS], expected[WORDS];
    for (int i = 0; i < count; i++) {
        uint64_t number = (uint64_t)(part * count + i);
        if (rank == 0) {
            fill(words, number);
            MPI_Send(words, WORDS, MPI_UINT64_T, 1, part, MPI_COMM_WORLD);
        } else {
            MPI_Recv(words, WORDS, MPI_UINT64_T, 0, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fill(expected, number);
            CHECK(memcmp(words, expected, sizeof words) == 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: half %d\n", rank, part);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3 && size == 2);
    half(rank, 0, atoi(argv[1]));
    MPIX_Checkpoint();
    while (access(argv[2], F_OK) != 0)
        usleep(1000);
    half(rank, 1, atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
