/* Communicators of groups that overlap, made one after the other with one tag, as programs on
 * process grids do. First argument: rounds. Second argument: the seed of the groups (1). */
#include "check.h"

enum { MOST = 64 };
static int rank, size;

/* The members of `comm` are these, and its messages are its own. */
static void use(MPI_Comm comm, int count, const int *members)
{
    int n, sum = 0, want = 0;
    MPI_Comm_size(comm, &n);
    CHECK(n == count);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        want += members[i];
    CHECK(sum == want);
    MPI_Comm_free(&comm);
}

static void make(MPI_Group world, int count, const int *members)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_incl(world, count, members, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm);
    use(comm, count, members);
    MPI_Comm_create_from_group(group, "overlap", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    use(comm, count, members);
    MPI_Group_free(&group);
}

/* The row of this rank, then its column, on a grid of two columns. One rank is late. */
static void grid(MPI_Group world, int late)
{
    int row = rank / 2, column = rank % 2, members[MOST], count = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == late)
        usleep(20000);
    for (int i = 2 * row; i < 2 * row + 2 && i < size; i++)
        members[count++] = i;
    make(world, count, members);
    count = 0;
    for (int i = column; i < size; i += 2)
        members[count++] = i;
    make(world, count, members);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= MOST);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    unsigned state = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int late = 0; late < size; late++)
        grid(world, late);
    for (int round = 0; round < rounds; round++) {
        int members[MOST], count = 0, mine = 0;
        for (int i = 0; i < size; i++) {
            if (next_random(&state) % 2) {
                members[count++] = i;
                mine |= i == rank;
            }
        }
        if (mine)
            make(world, count, members);
    }
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("overlap: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
