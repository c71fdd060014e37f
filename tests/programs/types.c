/* Derived datatypes across the wire: what one layout sends, another receives; pack and unpack;
 * sizes beyond 2^31; element counts.
 *
 *   types [GATE]    again and again until GATE exists */
#include "check.h"
#include <stddef.h>

static int rank, size;

/* Sends with one type and receives with another, on this rank itself. */
static void through(const void *out, int n, MPI_Datatype a, void *in, int m, MPI_Datatype b)
{
    MPI_Sendrecv(out, n, a, rank, 1, in, m, b, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void strided(int n)
{
    int *grid = malloc(sizeof(int) * n * 7), *flat = calloc(n, sizeof(int));
    MPI_Datatype t;
    for (int i = 0; i < n * 7; i++)
        grid[i] = i;
    MPI_Type_vector(n, 1, 7, MPI_INT, &t);
    MPI_Type_commit(&t);
    through(grid + 2, 1, t, flat, n, MPI_INT);
    for (int i = 0; i < n; i++)
        CHECK(flat[i] == i * 7 + 2);
    for (int i = 0; i < n; i++)
        flat[i] = -i;
    through(flat, n, MPI_INT, grid + 4, 1, t);
    for (int i = 0; i < n * 7; i++)
        CHECK(grid[i] == (i % 7 == 4 ? -(i / 7) : i));
    MPI_Type_free(&t);
    free(grid);
    free(flat);
}

struct mixed {
    char tag;
    double values[3];
    short last;
};

static void structs(void)
{
    struct mixed out[50], in[50];
    MPI_Datatype t, r, parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    int lens[3] = {1, 3, 1}, n, elements;
    MPI_Aint at[3] = {offsetof(struct mixed, tag), offsetof(struct mixed, values), offsetof(struct mixed, last)};
    MPI_Aint lb, extent;
    MPI_Status s;
    MPI_Type_create_struct(3, lens, at, parts, &t);
    MPI_Type_create_resized(t, 0, sizeof(struct mixed), &r);
    MPI_Type_commit(&r);
    MPI_Type_size(r, &n);
    MPI_Type_get_extent(r, &lb, &extent);
    CHECK(n == 1 + 24 + 2 && lb == 0 && extent == sizeof(struct mixed));
    memset(in, 0, sizeof in);
    for (int i = 0; i < 50; i++)
        out[i] = (struct mixed){(char)i, {i, i * 2.0, i * 3.0}, (short)-i};
    MPI_Sendrecv(out, 50, r, rank, 1, in, 50, r, rank, 1, MPI_COMM_WORLD, &s);
    for (int i = 0; i < 50; i++)
        CHECK(in[i].tag == out[i].tag && !memcmp(in[i].values, out[i].values, 24) && in[i].last == -i);
    MPI_Get_count(&s, r, &n);
    MPI_Get_elements(&s, r, &elements);
    CHECK(n == 50 && elements == 250);
    /* Two elements of the next struct: not a whole count. */
    MPI_Datatype partial;
    MPI_Type_create_struct(2, lens, at, parts, &partial);
    MPI_Type_commit(&partial);
    MPI_Sendrecv(out, 1, partial, rank, 1, in, 50, r, rank, 1, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, r, &n);
    MPI_Get_elements(&s, r, &elements);
    CHECK(n == MPI_UNDEFINED && elements == 4);
    MPI_Type_free(&partial);
    MPI_Type_free(&t);
    MPI_Type_free(&r);
}

static void blocks(void)
{
    int a[10][10], in[12], lens[3] = {2, 1, 3}, at[3] = {5, 20, 40}, pos = 0, need;
    MPI_Datatype indexed, sub, again;
    char buf[1000];
    for (int i = 0; i < 100; i++)
        a[i / 10][i % 10] = i;
    MPI_Type_indexed(3, lens, at, MPI_INT, &indexed);
    MPI_Type_commit(&indexed);
    through(a, 1, indexed, in, 6, MPI_INT);
    int want[6] = {5, 6, 20, 40, 41, 42};
    CHECK(!memcmp(in, want, sizeof want));
    int full[2] = {10, 10}, part[2] = {3, 4}, from[2] = {2, 5};
    MPI_Type_create_subarray(2, full, part, from, MPI_ORDER_C, MPI_INT, &sub);
    MPI_Type_dup(sub, &again);
    MPI_Type_commit(&again);
    through(a, 1, again, in, 12, MPI_INT);
    for (int i = 0; i < 12; i++)
        CHECK(in[i] == (2 + i / 4) * 10 + 5 + i % 4);
    MPI_Pack_size(1, again, MPI_COMM_WORLD, &need);
    CHECK(need >= 48);
    MPI_Pack(a, 1, again, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    MPI_Pack(&rank, 1, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    int end = pos, r = -1;
    pos = 0;
    memset(in, 0, sizeof in);
    MPI_Unpack(buf, end, &pos, in, 12, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(buf, end, &pos, &r, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(r == rank && in[11] == 48 && pos == end);
    int ni, na, nd, combiner;
    MPI_Type_get_envelope(sub, &ni, &na, &nd, &combiner);
    CHECK(combiner == MPI_COMBINER_SUBARRAY && ni == 8 && na == 0 && nd == 1);
    MPI_Type_free(&indexed);
    MPI_Type_free(&sub);
    MPI_Type_free(&again);
}

static void huge(void)
{
    MPI_Datatype big, bigger;
    MPI_Count n;
    int small;
    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &big);
    MPI_Type_contiguous(16, big, &bigger);
    MPI_Type_size_c(bigger, &n);
    CHECK(n == (MPI_Count)1 << 37);
    MPI_Type_size(bigger, &small);
    CHECK(small == MPI_UNDEFINED);
    MPI_Type_free(&big);
    MPI_Type_free(&bigger);
}

static void between_ranks(void)
{
    int n = 200000, next = (rank + 1) % size, before = (rank + size - 1) % size;
    double *a = malloc(sizeof(double) * 2 * n), *b = calloc(sizeof(double), 2 * n);
    MPI_Datatype t;
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &t);
    MPI_Type_commit(&t);
    for (int i = 0; i < 2 * n; i++)
        a[i] = rank * 1e7 + i;
    MPI_Sendrecv(a, 1, t, next, 3, b + 1, 1, t, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < n; i++)
        CHECK(b[2 * i + 1] == before * 1e7 + 2 * i && b[2 * i] == 0);
    MPI_Type_free(&t);
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    do {
        strided(1);
        strided(100);
        strided(100000);
        structs();
        blocks();
        huge();
        between_ranks();
    } while (argc > 1 && is_closed(argv[1]));
    if (rank == 0)
        printf("types: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
