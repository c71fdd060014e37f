/* Every blocking collective against the answer computed by hand, for sizes that meet every
 * algorithm, with MPI_IN_PLACE, derived types and a user's non-commutative operation.
 *
 *   coll [bits]        with bits, it prints a hash of rounded sums
 *   coll until GATE    again and again until GATE exists */
#include "check.h"

static int rank, size;

static int sizes[] = {0, 1, 2, 7, 100, 1000, 5000, 40000, 300000};
enum { SIZES = sizeof sizes / sizeof *sizes, BIG = 300000 };

static void bcasts(void)
{
    int *b = malloc(sizeof(int) * BIG);
    for (int s = 0; s < SIZES; s++)
        for (int root = 0; root < size; root += (size > 3 ? 3 : 1)) {
            for (int i = 0; i < sizes[s]; i++)
                b[i] = rank == root ? i * 3 + root : -1;
            MPI_Bcast(b, sizes[s], MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < sizes[s]; i++)
                CHECK(b[i] == i * 3 + root);
        }
    free(b);
}

static void reductions(void)
{
    long *a = malloc(sizeof(long) * BIG), *b = malloc(sizeof(long) * BIG);
    for (int s = 0; s < SIZES; s++) {
        int n = sizes[s], root = s % size;
        for (int i = 0; i < n; i++)
            a[i] = (long)(rank + 1) * (i + 1);
        long ranks = (long)size * (size + 1) / 2;
        memset(b, 0, sizeof(long) * n);
        MPI_Allreduce(a, b, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == ranks * (i + 1));
        MPI_Reduce(a, b, n, MPI_LONG, MPI_MAX, root, MPI_COMM_WORLD);
        for (int i = 0; rank == root && i < n; i++)
            CHECK(b[i] == (long)size * (i + 1));
        memcpy(b, a, sizeof(long) * n);
        MPI_Allreduce(MPI_IN_PLACE, b, n, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == i + 1);
        memcpy(b, a, sizeof(long) * n);
        MPI_Reduce(rank == root ? MPI_IN_PLACE : b, b, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
        for (int i = 0; rank == root && i < n; i++)
            CHECK(b[i] == ranks * (i + 1));
        MPI_Scan(a, b, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == (long)(rank + 1) * (rank + 2) / 2 * (i + 1));
        MPI_Exscan(a, b, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; rank > 0 && i < n; i++)
            CHECK(b[i] == (long)rank * (rank + 1) / 2 * (i + 1));
    }
    free(a);
    free(b);
}

static void exchanges(void)
{
    int most = 20000;
    int *a = malloc(sizeof(int) * most * size), *b = malloc(sizeof(int) * most * size);
    int *counts = malloc(sizeof(int) * size), *displs = malloc(sizeof(int) * size);
    for (int s = 0; s < SIZES; s++) {
        int n = sizes[s] > most ? most : sizes[s], root = s % size;
        for (int i = 0; i < n; i++)
            a[i] = rank * 1000003 + i;
        MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(b[r * n + i] == r * 1000003 + i);
        MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, root, MPI_COMM_WORLD);
        MPI_Scatter(rank == root ? b : NULL, n, MPI_INT, a, n, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(a[i] == rank * 1000003 + i);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                a[r * n + i] = rank * 10007 + r * 101 + i;
        MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(b[r * n + i] == r * 10007 + rank * 101 + i);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(b[r * n + i] == rank * 10007 + r * 101 + i);
        /* Uneven: rank r holds n + r. */
        int total = 0;
        for (int r = 0; r < size; r++) {
            counts[r] = n > most / 2 ? n / 2 + r : n + r;
            displs[r] = total;
            total += counts[r];
        }
        if (total > most * size)
            continue;
        for (int i = 0; i < counts[rank]; i++)
            a[i] = rank * 31 + i;
        MPI_Allgatherv(a, counts[rank], MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < counts[r]; i++)
                CHECK(b[displs[r] + i] == r * 31 + i);
        MPI_Gatherv(a, counts[rank], MPI_INT, b, counts, displs, MPI_INT, root, MPI_COMM_WORLD);
        memset(a, 0, sizeof(int) * counts[rank]);
        MPI_Scatterv(b, counts, displs, MPI_INT, a, counts[rank], MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < counts[rank]; i++)
            CHECK(a[i] == rank * 31 + i);
    }
    free(a);
    free(b);
    free(counts);
    free(displs);
}

static void all_to_all_uneven(void)
{
    int *sc = malloc(sizeof(int) * size), *sd = malloc(sizeof(int) * size);
    int *rc = malloc(sizeof(int) * size), *rd = malloc(sizeof(int) * size);
    MPI_Datatype *types = malloc(sizeof(MPI_Datatype) * size);
    int st = 0, rt = 0;
    for (int r = 0; r < size; r++) {
        sc[r] = (rank + 2 * r) % 5 * 50;
        rc[r] = (r + 2 * rank) % 5 * 50;
        sd[r] = st;
        rd[r] = rt;
        st += sc[r];
        rt += rc[r];
        types[r] = MPI_INT;
    }
    int *a = malloc(sizeof(int) * (st + 1)), *b = calloc(sizeof(int), rt + 1);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < sc[r]; i++)
            a[sd[r] + i] = rank * 100000 + r * 1000 + i;
    MPI_Alltoallv(a, sc, sd, MPI_INT, b, rc, rd, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rc[r]; i++)
            CHECK(b[rd[r] + i] == r * 100000 + rank * 1000 + i);
    memset(b, 0, sizeof(int) * rt);
    for (int r = 0; r < size; r++) {
        sd[r] *= 4;
        rd[r] *= 4;
    }
    MPI_Alltoallw(a, sc, sd, types, b, rc, rd, types, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rc[r]; i++)
            CHECK(b[rd[r] / 4 + i] == r * 100000 + rank * 1000 + i);
    free(a), free(b), free(sc), free(sd), free(rc), free(rd), free(types);
}

static void reduce_scatters(void)
{
    int *counts = malloc(sizeof(int) * size);
    for (int s = 0; s < SIZES - 2; s++) {
        int n = sizes[s], total = 0, before = 0;
        for (int r = 0; r < size; r++) {
            counts[r] = n + r % 3;
            before += r < rank ? counts[r] : 0;
            total += counts[r];
        }
        double *a = malloc(sizeof(double) * (total + n * size + 1)), *b = malloc(sizeof(double) * (n + 4));
        for (int i = 0; i < total; i++)
            a[i] = rank + i;
        MPI_Reduce_scatter(a, b, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double ranks = size * (size - 1) / 2.0;
        for (int i = 0; i < counts[rank]; i++)
            CHECK(b[i] == ranks + (double)size * (before + i));
        for (int i = 0; i < n * size; i++)
            a[i] = rank + i;
        MPI_Reduce_scatter_block(a, b, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(b[i] == ranks + (double)size * (rank * n + i));
        free(a), free(b);
    }
    free(counts);
}

/* 2 x 2 matrices modulo a prime: associative, and the order shows. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    unsigned *x = in, *y = inout;
    for (int i = 0; i < *len; i++, x += 4, y += 4) {
        unsigned r[4] = {(x[0] * y[0] + x[1] * y[2]) % 9973, (x[0] * y[1] + x[1] * y[3]) % 9973,
                         (x[2] * y[0] + x[3] * y[2]) % 9973, (x[2] * y[1] + x[3] * y[3]) % 9973};
        memcpy(y, r, sizeof r);
    }
}

static void matrix(unsigned *m, int r, int i)
{
    m[0] = 1 + r, m[1] = 2 + i % 50, m[2] = 3, m[3] = 4 + r * 2;
}

static void ordered(void)
{
    MPI_Op op;
    MPI_Datatype t;
    int one = 1, commutes;
    MPI_Type_contiguous(4, MPI_UNSIGNED, &t);
    MPI_Type_commit(&t);
    MPI_Op_create(multiply, 0, &op);
    MPI_Op_commutative(op, &commutes);
    CHECK(!commutes);
    for (int s = 1; s < SIZES - 2; s++) {
        int n = sizes[s];
        unsigned *a = malloc(16 * n), *b = malloc(16 * n), *c = malloc(16 * n), *w = malloc(16 * n);
        for (int i = 0; i < n; i++)
            matrix(a + 4 * i, rank, i);
        for (int i = 0; i < n; i++) {
            matrix(w + 4 * i, size - 1, i);
            for (int r = size - 2; r >= 0; r--) {
                unsigned x[4];
                matrix(x, r, i);
                multiply(x, w + 4 * i, &one, &t);
            }
        }
        MPI_Allreduce(a, b, n, t, op, MPI_COMM_WORLD);
        CHECK(!memcmp(b, w, 16 * n));
        memset(c, 0, 16 * n);
        MPI_Reduce(a, c, n, t, op, size - 1, MPI_COMM_WORLD);
        CHECK(rank != size - 1 || !memcmp(c, w, 16 * n));
        MPI_Scan(a, b, n, t, op, MPI_COMM_WORLD);
        CHECK(rank != size - 1 || !memcmp(b, w, 16 * n));
        free(a), free(b), free(c), free(w);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&t);
    CHECK(op == MPI_OP_NULL && t == MPI_DATATYPE_NULL);
}

static void columns(void)
{
    /* A column of a 10 x 8 matrix of ints travels, resized so that columns follow each other. */
    MPI_Datatype col, column;
    int m[10][8], all[10][8];
    MPI_Type_vector(10, 1, 8, MPI_INT, &col);
    MPI_Type_create_resized(col, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 80; i++)
        m[i / 8][i % 8] = i + rank;
    MPI_Bcast(&m[0][3], 1, column, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 8; j++)
            CHECK(m[i][j] == i * 8 + j + (j == 3 ? 0 : rank));
    if (size <= 8) {
        memset(all, 0, sizeof all);
        MPI_Allgather(&m[0][0], 10, MPI_INT, all, 1, column, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < 8; i++)
                CHECK(all[i][r] == i + (i == 3 ? 0 : r));
    }
    struct { double v; int at; } in = {(rank * 7) % 5, rank}, out;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        CHECK((r * 7) % 5 < out.v || ((r * 7) % 5 == out.v && r >= out.at));
    MPI_Type_free(&column);
    MPI_Type_free(&col);
}

/* A hash of sums of numbers of many magnitudes, whose bits show the order of the additions. */
static unsigned long long rounded(void)
{
    double *a = malloc(sizeof(double) * BIG), *b = malloc(sizeof(double) * BIG);
    unsigned long long hash = 1469598103934665603ULL, bits, state = rank + 1;
    for (int s = 1; s < SIZES; s++) {
        int n = sizes[s], root = (s + 1) % size;
        for (int i = 0; i < n; i++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            a[i] = (double)(long long)state / (double)(1ULL << (state >> 33 & 31));
        }
        for (int i = 0; i < n; i++)
            b[i] = a[i];
        MPI_Allreduce(s % 2 ? a : MPI_IN_PLACE, b, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) {
            memcpy(&bits, &b[i], sizeof bits);
            hash = (hash ^ bits) * 1099511628211ULL;
        }
        MPI_Reduce(a, b, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
        for (int i = 0; rank == root && i < n; i++) {
            memcpy(&bits, &b[i], sizeof bits);
            hash = (hash ^ bits) * 1099511628211ULL;
        }
    }
    free(a);
    free(b);
    unsigned long long all = 0;
    MPI_Reduce(&hash, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
    return all;
}

/* Where there are no elements, buffers, displacements and datatypes do not matter. */
static void nothing(void)
{
    int *zeros = calloc(size, sizeof(int)), here = 7;
    MPI_Datatype *types = malloc(sizeof(MPI_Datatype) * size);
    for (int i = 0; i < size; i++)
        types[i] = MPI_DATATYPE_NULL;
    MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(NULL, 0, MPI_INT, NULL, zeros, NULL, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatterv(NULL, zeros, NULL, MPI_INT, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgatherv(&here, 0, MPI_INT, &here, zeros, NULL, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(NULL, zeros, NULL, MPI_INT, NULL, zeros, NULL, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallw(NULL, zeros, zeros, types, NULL, zeros, zeros, types, MPI_COMM_WORLD);
    MPI_Scatter(MPI_IN_PLACE, 0, MPI_INT, rank == 0 ? NULL : MPI_IN_PLACE, 0, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&here, MPI_IN_PLACE, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_local(MPI_IN_PLACE, &here, 0, MPI_INT, MPI_SUM);
    CHECK(here == 7);
    free(zeros);
    free(types);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    do {
        for (int i = 0; i < 20; i++)
            MPI_Barrier(MPI_COMM_WORLD);
        bcasts();
        reductions();
        exchanges();
        all_to_all_uneven();
        reduce_scatters();
        nothing();
        ordered();
        columns();
    } while (argc == 3 && is_closed(argv[2]));
    if (argc == 2) {
        unsigned long long hash = rounded();
        if (rank == 0)
            printf("coll: bits %016llx\n", hash);
    }
    if (rank == 0)
        printf("coll: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
