/* Intercommunicators by the standard: how they are made, messages and collectives over them, and
 * what is made of them. Each round has other groups.
 *
 *   intercomms [ROUNDS]   each rank tells what it has seen every ten rounds */
#include "check.h"

enum { MOST = 64, LONG = 5000 };
static int rank, size;
static unsigned long long seen = 14695981039346656037ull;

static void note(const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        seen = (seen ^ p[i]) * 1099511628211ull;
}

/* Two groups as one of their processes sees them; numbers are ranks of the job. */
struct sides {
    MPI_Comm inter;
    int me, n, m, low;
    int local[MOST], remote[MOST];
};

static void members(MPI_Group group, int n, int *into)
{
    MPI_Group world;
    int all[MOST];
    for (int i = 0; i < n; i++)
        all[i] = i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(group, n, all, world, into);
    MPI_Group_free(&world);
    MPI_Group_free(&group);
}

static struct sides sides_of(MPI_Comm inter)
{
    struct sides s = { .inter = inter };
    MPI_Group group;
    int flag;
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_rank(inter, &s.me);
    MPI_Comm_size(inter, &s.n);
    MPI_Comm_remote_size(inter, &s.m);
    MPI_Comm_group(inter, &group);
    members(group, s.n, s.local);
    MPI_Comm_remote_group(inter, &group);
    members(group, s.m, s.remote);
    CHECK(s.local[s.me] == rank);
    s.low = s.local[0] < s.remote[0];
    return s;
}

/* The first ranks of the job and the others, in turning order. */
static MPI_Comm meet(int round)
{
    MPI_Comm local, inter;
    int first = 1 + round % (size - 1), low = rank < first, turned = round & 1;
    int lead[2] = { turned ? size - 1 : first, turned ? first - 1 : 0 };
    MPI_Comm_split(MPI_COMM_WORLD, low, turned ? -rank : rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, lead[!low], round, &inter);
    MPI_Comm_free(&local);
    return inter;
}

/* Messages to all, which are received in any order, and to one. */
static void messages(struct sides s, int round)
{
    MPI_Request r[MOST + 2];
    MPI_Status status;
    int out = rank * 1000 + round, in, sum = 0, want = 0;
    for (int i = 0; i < s.m; i++)
        MPI_Isend(&out, 1, MPI_INT, i, 5, s.inter, &r[i]);
    for (int i = 0; i < s.m; i++) {
        MPI_Probe(MPI_ANY_SOURCE, 5, s.inter, &status);
        MPI_Recv(&in, 1, MPI_INT, status.MPI_SOURCE, 5, s.inter, &status);
        CHECK(in == s.remote[status.MPI_SOURCE] * 1000 + round);
        sum += in;
        want += s.remote[i] * 1000 + round;
    }
    CHECK(sum == want);
    MPI_Waitall(s.m, r, MPI_STATUSES_IGNORE);
    note(&sum, sizeof sum);
    if (s.me < s.m && s.me < s.n) {
        int peer = s.me;
        MPI_Sendrecv(&out, 1, MPI_INT, peer, 6, &in, 1, MPI_INT, peer, 6, s.inter, &status);
        CHECK(in == s.remote[peer] * 1000 + round && status.MPI_SOURCE == peer);
        MPI_Recv_init(&in, 1, MPI_INT, peer, 7, s.inter, &r[0]);
        MPI_Send_init(&out, 1, MPI_INT, peer, 7, s.inter, &r[1]);
        for (int i = 0; i < 2; i++) {
            in = -1;
            MPI_Startall(2, r);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
            CHECK(in == s.remote[peer] * 1000 + round);
        }
        MPI_Request_free(&r[0]);
        MPI_Request_free(&r[1]);
    }
}

/* The root's argument here, if it is rank `root` of the group that `low` names. */
static int as_root(struct sides s, int low, int root)
{
    if (s.low != low)
        return root;
    return s.me == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void with_root(struct sides s, int low, int at, int round)
{
    int root = as_root(s, low, at), sends = s.low != low, n = s.low == low ? s.m : s.n;
    int *others = s.low == low ? s.remote : s.local, *of_root = s.low == low ? s.local : s.remote;
    int all[MOST], counts[MOST], at_each[MOST], mine = rank + round, sum = -1, want = 0, total = 0;
    static int text[LONG];
    for (int i = 0; i < LONG; i++)
        text[i] = root == MPI_ROOT ? rank * LONG + i + round : 0;
    MPI_Bcast(text, LONG, MPI_INT, root, s.inter);
    for (int i = 0; sends && i < LONG; i++)
        CHECK(text[i] == of_root[at] * LONG + i + round);
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, s.inter);
    for (int i = 0; i < n; i++) {
        CHECK(root != MPI_ROOT || all[i] == others[i] + round);
        want += others[i] + round;
        counts[i] = i % 2 + 1;
        at_each[i] = 2 * i;
        total += counts[i];
    }
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, s.inter);
    CHECK(root != MPI_ROOT || sum == want);
    int got = -1, pair[2] = { mine, -mine }, pairs[2 * MOST];
    MPI_Scatter(all, 1, MPI_INT, &got, 1, MPI_INT, root, s.inter);
    CHECK(!sends || got == mine);
    memset(pairs, 0, sizeof pairs);
    MPI_Gatherv(pair, s.me % 2 + 1, MPI_INT, pairs, counts, at_each, MPI_INT, root, s.inter);
    for (int i = 0; root == MPI_ROOT && i < n; i++)
        CHECK(pairs[2 * i] == others[i] + round
              && pairs[2 * i + 1] == (i % 2 ? -others[i] - round : 0));
    int back[2] = { 0, 0 };
    MPI_Scatterv(pairs, counts, at_each, MPI_INT, back, s.me % 2 + 1, MPI_INT, root, s.inter);
    CHECK(!sends || (back[0] == mine && back[1] == (s.me % 2 ? -mine : 0)));
    CHECK(total >= n);
    note(&sum, sizeof sum);
}

static void among_all(struct sides s, int round)
{
    int mine = rank * 10 + round, all[2 * MOST], out[2 * MOST], sum, want = 0;
    int counts[MOST], at[MOST], own[MOST], own_at[MOST];
    MPI_Datatype types[MOST];
    MPI_Request r[3];
    MPI_Barrier(s.inter);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, s.inter, &r[0]);
    MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, s.inter, &r[1]);
    MPI_Ibarrier(s.inter, &r[2]);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < s.m; i++) {
        CHECK(all[i] == s.remote[i] * 10 + round);
        want += all[i];
        out[i] = rank * 1000 + s.remote[i];
        counts[i] = i % 2;
        at[i] = i;
        own[i] = s.me % 2;
        own_at[i] = (int)(i * sizeof(int));
        types[i] = MPI_INT;
    }
    CHECK(sum == want);
    MPI_Alltoall(out, 1, MPI_INT, all, 1, MPI_INT, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(all[i] == s.remote[i] * 1000 + rank);
    memset(all, -1, sizeof all);
    MPI_Allgatherv(&mine, s.me % 2, MPI_INT, all, counts, at, MPI_INT, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(all[i] == (i % 2 ? s.remote[i] * 10 + round : -1));
    memset(all, -1, sizeof all);
    MPI_Alltoallv(out, counts, at, MPI_INT, all, own, at, MPI_INT, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(all[i] == (s.me % 2 ? s.remote[i] * 1000 + rank : -1));
    memset(all, -1, sizeof all);
    MPI_Alltoallw(out, counts, own_at, types, all, own, own_at, types, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(all[i] == (s.me % 2 ? s.remote[i] * 1000 + rank : -1));
    note(&sum, sizeof sum);
}

static void reduced(struct sides s, int round)
{
    static int vector[MOST * MOST], part[MOST * MOST];
    int counts[MOST], total = s.n * s.m, each = s.m, want = 0;
    for (int i = 0; i < total; i++)
        vector[i] = rank + i * round;
    for (int i = 0; i < s.m; i++)
        want += s.remote[i];
    MPI_Reduce_scatter_block(vector, part, each, MPI_INT, MPI_SUM, s.inter);
    for (int i = 0; i < each; i++)
        CHECK(part[i] == want + s.m * (s.me * each + i) * round);
    for (int i = 0; i < s.n; i++)
        counts[i] = each;
    counts[0] += s.n > 1;
    counts[s.n - 1] -= s.n > 1;
    int before = s.me * each + (s.me > 0 && s.n > 1);
    MPI_Reduce_scatter(vector, part, counts, MPI_INT, MPI_SUM, s.inter);
    for (int i = 0; i < counts[s.me]; i++)
        CHECK(part[i] == want + s.m * (before + i) * round);
    note(part, sizeof(int));
}

/* Communicators that are made of one of these work. */
static void made_of(struct sides s, int round)
{
    MPI_Comm twin, late, merged, part;
    MPI_Group group, some;
    MPI_Request request;
    int result, n, r, sum = 0, want = size * (size - 1) / 2;
    MPI_Comm_idup(s.inter, &late, &request);
    MPI_Comm_dup(s.inter, &twin);
    MPI_Comm_compare(s.inter, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    messages(sides_of(twin), round);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    messages(sides_of(late), round);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&late);

    MPI_Intercomm_merge(s.inter, !s.low, &merged);
    MPI_Comm_rank(merged, &r);
    CHECK(r == s.me + (s.low ? 0 : s.m));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == want);
    MPI_Comm_free(&merged);
    MPI_Intercomm_merge(s.inter, 1, &merged);
    MPI_Comm_size(merged, &n);
    CHECK(n == size);
    MPI_Comm_free(&merged);

    /* Ranks 0, 2, 4 ... of both groups, from the last to the first; the others one by one. */
    MPI_Comm_split(s.inter, s.me % 2 ? s.me + (s.low ? 0 : MOST) : 0, -s.me, &part);
    CHECK((part == MPI_COMM_NULL) == s.me % 2);
    if (part != MPI_COMM_NULL) {
        struct sides t = sides_of(part);
        CHECK(t.n == (s.n + 1) / 2 && t.m == (s.m + 1) / 2 && t.remote[t.m - 1] == s.remote[0]);
        messages(t, round);
        MPI_Comm_free(&part);
    }
    int last = s.n - 1;
    MPI_Comm_group(s.inter, &group);
    MPI_Group_incl(group, 1, &last, &some);
    MPI_Comm_create(s.inter, some, &part);
    CHECK((part == MPI_COMM_NULL) == (s.me != last));
    if (part != MPI_COMM_NULL) {
        messages(sides_of(part), round);
        MPI_Comm_free(&part);
    }
    MPI_Comm_create(s.inter, s.low ? some : MPI_GROUP_EMPTY, &part);
    CHECK(part == MPI_COMM_NULL);
    MPI_Group_free(&some);
    MPI_Group_free(&group);
}

/* One group sends an element to each process of the other, which sends none. */
static void one_way(struct sides s)
{
    int out[MOST], in[MOST];
    for (int i = 0; i < s.m; i++)
        out[i] = rank * 1000 + s.remote[i];
    /* Nothing comes to the group that sends, so it may name one buffer. */
    int sends = s.low, *into = sends ? out : in;
    MPI_Alltoall(out, sends, MPI_INT, into, !sends, MPI_INT, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(into[i] == (sends ? rank * 1000 + s.remote[i] : s.remote[i] * 1000 + rank));
    MPI_Allgather_c(&rank, sends, MPI_INT, into, !sends, MPI_INT, s.inter);
    for (int i = 0; i < s.m; i++)
        CHECK(into[i] == (sends ? rank * 1000 + s.remote[i] : s.remote[i]));
}

/* A communicator is freed before its call is complete. */
static void freed(struct sides s)
{
    MPI_Comm twin;
    MPI_Request request;
    int sum, want = 0;
    for (int i = 0; i < s.m; i++)
        want += s.remote[i];
    MPI_Comm_dup(s.inter, &twin);
    MPI_Iallreduce_c(&rank, &sum, 1, MPI_INT, MPI_SUM, twin, &request);
    MPI_Comm_free(&twin);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == want);
}

static void without_parent(struct sides s, int round)
{
    MPI_Comm made;
    MPI_Group local, remote;
    int result;
    MPI_Comm_group(s.inter, &local);
    MPI_Comm_remote_group(s.inter, &remote);
    MPI_Intercomm_create_from_groups(local, s.n - 1, remote, s.m - 1, "intercomms",
                                     MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    MPI_Comm_compare(made, s.inter, &result);
    CHECK(result == MPI_CONGRUENT);
    messages(sides_of(made), round);
    MPI_Comm_free(&made);
    MPI_Intercomm_create_from_groups(local, 0, MPI_GROUP_EMPTY, 0, "nobody", MPI_INFO_NULL,
                                     MPI_ERRORS_ARE_FATAL, &made);
    CHECK(made == MPI_COMM_NULL);
    MPI_Group_free(&remote);
    MPI_Group_free(&local);
}

static void refusals(struct sides s)
{
    MPI_Comm none;
    int x = 0, y = 0;
    MPI_Comm_set_errhandler(s.inter, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Bcast(&x, 1, MPI_INT, s.m, s.inter)) == MPI_ERR_ROOT);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, s.m, 0, s.inter)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Scan(&x, &y, 1, MPI_INT, MPI_SUM, s.inter)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &y, 1, MPI_INT, MPI_SUM, s.inter)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Intercomm_create(s.inter, 0, MPI_COMM_WORLD, 0, 0, &none)) == MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Intercomm_merge(MPI_COMM_SELF, 0, &none)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, rank, 0, &none)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 1, MPI_COMM_WORLD, 0, 0, &none)) == MPI_ERR_RANK);
    CHECK(none == MPI_COMM_NULL);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= MOST);
    int rounds = argc > 1 ? atoi(argv[1]) : 6;
    for (int round = 0; size > 1 && round < rounds; round++) {
        MPI_Comm inter = meet(round);
        struct sides s = sides_of(inter);
        messages(s, round);
        for (int low = 0; low < 2; low++)
            for (int at = 0; at < (s.low == low ? s.n : s.m); at++)
                with_root(s, low, at, round);
        among_all(s, round);
        reduced(s, round);
        made_of(s, round);
        one_way(s);
        freed(s);
        without_parent(s, round);
        if (round == 0)
            refusals(s);
        MPI_Comm_free(&inter);
        if (argc > 1 && round % 10 == 9)
            printf("rank %d round %d %016llx\n", rank, round, seen);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("intercomms: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
