/* Point-to-point by the standard: modes, wildcards, order, probes, persistent requests,
 * cancellation, many requests at once.  Any number of ranks; the partner is (rank ^ 1).
 *
 *   p2p [GATE]    again and again until GATE exists */
#include "check.h"

static int rank, size, partner;

/* Both of a pair are here. */
static void pair_meets(void)
{
    MPI_Sendrecv(NULL, 0, MPI_INT, partner, 99, NULL, 0, MPI_INT, partner, 99, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void modes(void)
{
    int out = rank + 100, in = -1, n = 0;
    MPI_Status s;
    if (partner >= size)
        return;
    MPI_Sendrecv(&out, 1, MPI_INT, partner, 1, &in, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, &s);
    CHECK(in == partner + 100 && s.MPI_SOURCE == partner && s.MPI_TAG == 1);
    MPI_Get_count(&s, MPI_INT, &n);
    CHECK(n == 1);
    MPI_Sendrecv_replace(&out, 1, MPI_INT, partner, 2, partner, 2, MPI_COMM_WORLD, &s);
    CHECK(out == partner + 100);
    char *space = malloc(4096 + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(space, 4096 + MPI_BSEND_OVERHEAD);
    MPI_Bsend(&rank, 1, MPI_INT, partner, 3, MPI_COMM_WORLD);
    MPI_Recv(&in, 1, MPI_INT, partner, 3, MPI_COMM_WORLD, &s);
    CHECK(in == partner);
    void *back;
    int len;
    MPI_Buffer_detach(&back, &len);
    CHECK(back == space && len == 4096 + MPI_BSEND_OVERHEAD);
    free(space);
    MPI_Request r;
    MPI_Irecv(&in, 1, MPI_INT, partner, 4, MPI_COMM_WORLD, &r);
    pair_meets();
    MPI_Rsend(&rank, 1, MPI_INT, partner, 4, MPI_COMM_WORLD);
    MPI_Wait(&r, &s);
    CHECK(in == partner && r == MPI_REQUEST_NULL);
    MPI_Issend(&rank, 1, MPI_INT, partner, 5, MPI_COMM_WORLD, &r);
    MPI_Recv(&in, 1, MPI_INT, partner, 5, MPI_COMM_WORLD, &s);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void synchronous_waits_for_its_match(void)
{
    int flag = 1, x = 5, y = 0;
    MPI_Request r;
    MPI_Issend(&x, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &r);
    for (int i = 0; i < 100; i++) {
        MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
    MPI_Recv(&y, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(y == 5);
}

static void order_and_wildcards(void)
{
    enum { N = 200 };
    MPI_Request r[2 * N];
    int out[N], in[N], k = 0;
    if (partner >= size)
        return;
    for (int i = 0; i < N; i++) {
        out[i] = i;
        MPI_Isend(&out[i], 1, MPI_INT, partner, i % 3, MPI_COMM_WORLD, &r[k++]);
    }
    for (int i = 0; i < N; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[k++]);
    MPI_Status s[2 * N];
    MPI_Waitall(k, r, s);
    for (int i = 0; i < N; i++)
        CHECK(in[i] == i && s[N + i].MPI_TAG == i % 3 && s[N + i].MPI_SOURCE == partner);
    pair_meets();
    /* Out of tag order, from the unexpected queue. */
    for (int i = 0; i < 30; i++)
        MPI_Send(&out[i], 1, MPI_INT, partner, i % 3, MPI_COMM_WORLD);
    for (int tag = 2; tag >= 0; tag--)
        for (int i = tag; i < 30; i += 3) {
            int got = -1;
            MPI_Recv(&got, 1, MPI_INT, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(got == i);
        }
}

static void probes(void)
{
    int flag = 0, n, got[5];
    MPI_Status s;
    MPI_Message m;
    MPI_Request r;
    int five[5] = {rank, 1, 2, 3, 4};
    if (partner >= size)
        return;
    MPI_Isend(five, 5, MPI_INT, partner, 11, MPI_COMM_WORLD, &r);
    MPI_Probe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, MPI_INT, &n);
    CHECK(n == 5 && s.MPI_SOURCE == partner && s.MPI_TAG == 11);
    MPI_Mprobe(partner, MPI_ANY_TAG, MPI_COMM_WORLD, &m, &s);
    MPI_Iprobe(partner, 11, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Mrecv(got, 5, MPI_INT, &m, &s);
    CHECK(m == MPI_MESSAGE_NULL && got[0] == partner && got[4] == 4);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &m, &s);
    CHECK(flag && m == MPI_MESSAGE_NO_PROC && s.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(got, 5, MPI_INT, &m, &s);
    CHECK(m == MPI_MESSAGE_NULL);
}

static void persistent(void)
{
    int out = 0, in = -1, flag;
    MPI_Request r[2];
    int peer = partner < size ? partner : MPI_PROC_NULL;
    MPI_Send_init(&out, 1, MPI_INT, peer, 20, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(&in, 1, MPI_INT, peer, 20, MPI_COMM_WORLD, &r[1]);
    MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
    CHECK(flag && r[0] != MPI_REQUEST_NULL);
    for (int i = 0; i < 50; i++) {
        out = i * 10 + rank;
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        CHECK(peer == MPI_PROC_NULL || in == i * 10 + peer);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    CHECK(r[0] == MPI_REQUEST_NULL);
}

static void any_and_some(void)
{
    enum { N = 16 };
    int out[N], in[N], seen = 0, index, n, indices[N], flag;
    MPI_Request r[N], s[N];
    if (partner >= size)
        return;
    for (int i = 0; i < N; i++) {
        MPI_Irecv(&in[i], 1, MPI_INT, partner, 30 + i, MPI_COMM_WORLD, &r[i]);
        s[i] = MPI_REQUEST_NULL;
    }
    MPI_Testany(N, s, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(flag && index == MPI_UNDEFINED);
    for (int i = N - 1; i >= 0; i--) {
        out[i] = i * i;
        MPI_Isend(&out[i], 1, MPI_INT, partner, 30 + i, MPI_COMM_WORLD, &s[i]);
    }
    for (int i = 0; i < N / 2; i++) {
        MPI_Waitany(N, r, &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && index < N && r[index] == MPI_REQUEST_NULL && in[index] == index * index);
        seen++;
    }
    while (seen < N) {
        MPI_Waitsome(N, r, &n, indices, MPI_STATUSES_IGNORE);
        CHECK(n > 0);
        for (int i = 0; i < n; i++)
            CHECK(in[indices[i]] == indices[i] * indices[i]);
        seen += n;
    }
    MPI_Waitsome(N, r, &n, indices, MPI_STATUSES_IGNORE);
    CHECK(n == MPI_UNDEFINED);
    MPI_Waitall(N, s, MPI_STATUSES_IGNORE);
}

static void cancelled(void)
{
    int x = 0, flag = 0;
    MPI_Request r;
    MPI_Status s;
    MPI_Irecv(&x, 1, MPI_INT, rank, 40, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    CHECK(flag);
    MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 40, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, &s);
    CHECK(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG);
    MPI_Get_count(&s, MPI_INT, &x);
    CHECK(x == 0);
}

static void many_unexpected(void)
{
    enum { N = 10000 };
    int x = 0;
    double start = MPI_Wtime();
    if (partner >= size)
        return;
    MPI_Request *r = malloc(sizeof *r * N);
    int *out = malloc(sizeof *out * N);
    for (int i = 0; i < N; i++) {
        out[i] = i;
        MPI_Isend(&out[i], 1, MPI_INT, partner, 1000 + i, MPI_COMM_WORLD, &r[i]);
    }
    for (int i = N - 1; i >= 0; i--) {
        MPI_Recv(&x, 1, MPI_INT, partner, 1000 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(x == i);
    }
    MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
    CHECK(MPI_Wtime() - start < 20);
    free(r);
    free(out);
}

static void large(void)
{
    size_t n = 5000000;
    unsigned char *a = malloc(n), *b = calloc(1, n);
    if (partner >= size)
        return;
    for (size_t i = 0; i < n; i++)
        a[i] = (unsigned char)(i * 13 + rank);
    for (int i = 0; i < 5; i++) {
        MPI_Request r[2];
        MPI_Irecv(b, (int)n, MPI_BYTE, partner, 50, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(a, (int)n, MPI_BYTE, partner, 50, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        for (size_t j = 0; j < n; j += 997)
            CHECK(b[j] == (unsigned char)(j * 13 + partner));
        memset(b, 0, n);
    }
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    partner = rank ^ 1;
    do {
        modes();
        synchronous_waits_for_its_match();
        order_and_wildcards();
        probes();
        persistent();
        any_and_some();
        cancelled();
        many_unexpected();
        large();
    } while (argc > 1 && is_closed(argv[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("p2p: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
