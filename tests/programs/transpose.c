/* Exchanges blocks of several lengths between all ranks, and between some in another order. The
 * integers are contiguous or strided; exchanges are also in place and nonblocking. Checks each
 * block, and prints a hash of the blocks of the first rounds.
 *
 *   transpose GATE [LONGEST]
 *
 * Continues until the file GATE exists. With LONGEST, which is in integers, only all ranks
 * exchange. */
#include "check.h"
#include <unistd.h>

enum { LONGEST = 40000, ROUNDS = 60, KINDS = 4 };

static int value(int from, int to, int i, int round)
{
    return from * 1000003 + to * 10007 + i * 31 + round * 7;
}

/* Elements of one block as far apart as there are blocks; the blocks begin side by side. */
static MPI_Datatype interleaved(int n, int size)
{
    MPI_Datatype apart, type;
    MPI_Type_vector(n, 1, size, MPI_INT, &apart);
    MPI_Type_create_resized(apart, 0, sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&apart);
    return type;
}

static void exchange(MPI_Comm comm, int n, int round, int *out, int *in)
{
    int rank, size, kind = round % KINDS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int *from = kind == 1 ? in : out;
    for (int to = 0; to < size; to++)
        for (int i = 0; i < n; i++)
            from[kind == 2 ? i * size + to : to * n + i] = value(rank, to, i, round);
    if (kind == 2) {
        MPI_Datatype type = interleaved(n, size);
        MPI_Alltoall(out, 1, type, in, n, MPI_INT, comm);
        MPI_Type_free(&type);
    } else if (kind == 3) {
        MPI_Request request;
        MPI_Ialltoall(out, n, MPI_INT, in, n, MPI_INT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Alltoall(kind == 1 ? MPI_IN_PLACE : out, n, MPI_INT, in, n, MPI_INT, comm);
    }
    for (int by = 0; by < size; by++)
        for (int i = 0; i < n; i++)
            CHECK(in[by * n + i] == value(by, rank, i, round));
}

int main(int argc, char **argv)
{
    static const int lengths[] = { 1, 3, 40, 256, 700, 5000, LONGEST };
    int rank, size;
    unsigned long long hash = 1469598103934665603ULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1);
    int all = argc < 3, longest = all ? LONGEST : atoi(argv[2]);
    size_t bytes = sizeof(int) * longest * size;
    int *out = malloc(bytes), *in = malloc(bytes);
    MPI_Comm some = MPI_COMM_NULL;
    if (all)
        MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, -rank, &some);
    for (int round = 0; round < ROUNDS || is_closed(argv[1]); round++) {
        int n = lengths[round / KINDS % 7];
        n = n < longest ? n : longest;
        exchange(MPI_COMM_WORLD, n, round, out, in);
        for (int i = 0; round < ROUNDS && i < n * size; i++)
            hash = (hash ^ (unsigned)in[i]) * 1099511628211ULL;
        if (some != MPI_COMM_NULL)
            exchange(some, n, round, out, in);
    }
    printf("rank %d: %016llx\n", rank, hash);
    if (some != MPI_COMM_NULL)
        MPI_Comm_free(&some);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
