/* The first rank sends and then computes for a while, round after round; each other rank says how
 * long the messages took at most, in milliseconds.
 *
 *   first ROUNDS SECONDS send|isend|bcast [FILE]
 *
 * With FILE the rounds go on until it is there. */
#include "check.h"
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void compute(double seconds)
{
    for (double until = now() + seconds; now() < until;)
        ;
}

/* The message of a round: when it was sent, and whether another follows. */
struct round {
    double sent;
    double more;
};

static void send(struct round *round, int size, char how)
{
    MPI_Request requests[64];
    if (how == 'b') {
        MPI_Bcast(round, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        return;
    }
    CHECK(size <= 64);
    for (int to = 1; to < size; to++)
        if (how == 's')
            MPI_Send(round, 2, MPI_DOUBLE, to, 5, MPI_COMM_WORLD);
        else
            MPI_Isend(round, 2, MPI_DOUBLE, to, 5, MPI_COMM_WORLD, &requests[to]);
    if (how == 'i')
        MPI_Waitall(size - 1, requests + 1, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size;
    struct round round = { 0, 1 };
    double worst = 0;
    MPI_Init(&argc, &argv);
    CHECK(argc == 4 || argc == 5);
    char how = argv[3][0];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) /* The others wait for it by then. */
        compute(0.2);
    for (int number = 1; round.more; number++) {
        if (rank == 0) {
            round.more = argc == 5 ? access(argv[4], F_OK) != 0 : number < atoi(argv[1]);
            round.sent = now();
            send(&round, size, how);
            compute(atof(argv[2]));
            continue;
        }
        if (how == 'b')
            MPI_Bcast(&round, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(&round, 2, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double took = now() - round.sent;
        worst = took > worst ? took : worst;
    }
    if (rank > 0)
        printf("rank %d: at most %.0f ms\n", rank, worst * 1e3);
    MPI_Finalize();
    return 0;
}
