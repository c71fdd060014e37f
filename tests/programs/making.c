/* Communicators in the making beside each other: a duplicate that is pending while others are made,
 * threads that duplicate, split and create at the same time on communicators that overlap, and
 * threads that duplicate and free in a drawn order (first argument: the seed). */
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 40 };
static int rank, size;
static unsigned seed;
static MPI_Comm comms[THREADS];

/* Each member's messages meet their receives in `comm` and in no other communicator. */
static void use(MPI_Comm comm)
{
    int n, me, out, in = -1, sum = 0;
    MPI_Status s;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    out = me + 1;
    MPI_Sendrecv(&out, 1, MPI_INT, (me + 1) % n, 7, &in, 1, MPI_INT, (me + n - 1) % n, 7, comm, &s);
    CHECK(in == (me + n - 1) % n + 1);
    MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == n * (n + 1) / 2);
}

static void use_and_free(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL)
        return;
    use(*comm);
    MPI_Comm_free(comm);
}

/* Rank 0 has the duplicate of the world pending; the others come to it only after rank 0 has made
 * other communicators and has told them so. */
static void pending(void)
{
    MPI_Comm late, own, pair;
    MPI_Request request;
    int word = 1;
    if (rank == 0) {
        MPI_Comm_idup(MPI_COMM_WORLD, &late, &request);
        MPI_Comm_dup(MPI_COMM_SELF, &own);
        use_and_free(&own);
    }
    MPI_Comm_split(comms[0], rank / 2, 0, &pair);
    use_and_free(&pair);
    if (rank == 0) {
        for (int i = 1; i < size; i++)
            MPI_Send(&word, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_idup(MPI_COMM_WORLD, &late, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use_and_free(&late);
}

static void *make(void *arg)
{
    int me = (int)(long)arg;
    MPI_Comm comm = comms[me];
    MPI_Group all, odd;
    MPI_Comm_group(comm, &all);
    int range[1][3] = {{size - 1, 0, -2}}, member;
    MPI_Group_range_incl(all, 1, range, &odd);
    MPI_Group_rank(odd, &member);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm early, dup, half, some = MPI_COMM_NULL;
        MPI_Request request;
        MPI_Comm_idup(comm, &early, &request);
        MPI_Comm_dup(comm, &dup);
        MPI_Comm_split(comm, rank % (me + 1), 0, &half);
        if (member != MPI_UNDEFINED)
            MPI_Comm_create_group(MPI_COMM_WORLD, odd, me, &some);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        use_and_free(&dup);
        use_and_free(&half);
        use_and_free(&some);
        use_and_free(&early);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&odd);
    return NULL;
}

/* Each thread duplicates, uses and frees communicators in an order that all ranks draw alike. A
 * duplicate may outlive the one that it was made from. */
static void *storm(void *arg)
{
    enum { MOST = 5, STEPS = 400 };
    MPI_Comm live[MOST] = {comms[(int)(long)arg]};
    unsigned state = seed * 31 + (unsigned)(long)arg;
    int count = 1;
    for (int i = 0; i < STEPS; i++) {
        unsigned draw = next_random(&state);
        int at = (int)(next_random(&state) % (unsigned)count);
        if (draw % 4 == 0) {
            use(live[at]);
        } else if (draw % 2 && count < MOST) {
            MPI_Comm_dup(live[at], &live[count++]);
        } else if (at > 0) {
            MPI_Comm_free(&live[at]);
            live[at] = live[--count];
        }
    }
    while (count > 1)
        use_and_free(&live[--count]);
    return NULL;
}

static void in_threads(void *(*run)(void *))
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    pending();
    in_threads(make);
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "making: seed %u\n", seed);
    in_threads(storm);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    if (rank == 0)
        printf("making: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
