/* Columns, blocks and structures sent through derived datatypes, on communicators that are split,
 * duplicated and freed as it goes; requests of all kinds are open across the steps.
 *
 *   derived [SIDE [STEPS]] */
#include "check.h"
#include <stddef.h>

struct item {
    char kind;
    double value;
    int where[3];
};

static unsigned long long hash(unsigned long long h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

static MPI_Datatype item_type(void)
{
    int lengths[3] = { 1, 1, 3 };
    MPI_Aint at[3] = { offsetof(struct item, kind), offsetof(struct item, value),
                       offsetof(struct item, where) };
    MPI_Datatype parts[3] = { MPI_CHAR, MPI_DOUBLE, MPI_INT }, made, sized;
    MPI_Type_create_struct(3, lengths, at, parts, &made);
    MPI_Type_create_resized(made, 0, sizeof(struct item), &sized);
    MPI_Type_commit(&sized);
    MPI_Type_free(&made);
    return sized;
}

/* Turns the matrix: my columns become the neighbour's rows. */
static void columns(double *m, double *in, int side, MPI_Comm comm, int rank, int size)
{
    MPI_Datatype column, all;
    MPI_Type_vector(side, 1, side, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &all);
    MPI_Type_commit(&all);
    MPI_Request r[2];
    MPI_Irecv(in, side * side, MPI_DOUBLE, (rank + size - 1) % size, 5, comm, &r[0]);
    MPI_Isend(m, side, all, (rank + 1) % size, 5, comm, &r[1]);
    MPI_Type_free(&all);
    MPI_Type_free(&column);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int side = argc > 1 ? atoi(argv[1]) : 128, steps = argc > 2 ? atoi(argv[2]) : 100;
    size_t cells = (size_t)side * side;
    double *m = malloc(cells * 8), *in = malloc(cells * 8);
    struct item items[64], got[64];
    CHECK(m && in && side > 1);
    for (size_t i = 0; i < cells; i++)
        m[i] = rank * 1000.0 + i;
    MPI_Datatype type = item_type();
    MPI_Comm ring;
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    unsigned long long h = 14695981039346656037ull;
    for (int step = 1; step <= steps; step++) {
        columns(m, in, side, ring, rank, size);
        double *swap = m;
        m = in, in = swap;
        m[step % cells] += step;
        /* A communicator for this step alone: odd and even ranks, in turning order. */
        MPI_Comm half;
        int r, n;
        MPI_Comm_split(ring, (rank + step) % 2, step % 3 ? rank : -rank, &half);
        MPI_Comm_rank(half, &r);
        MPI_Comm_size(half, &n);
        memset(items, 0, sizeof items);
        memset(got, 0, sizeof got);
        for (int i = 0; i < 64; i++)
            items[i] = (struct item){ 'a' + i % 26, m[(i + step) % cells], { rank, step, i } };
        MPI_Request q;
        MPI_Irecv(got, 64, type, MPI_ANY_SOURCE, step, half, &q);
        MPI_Send(items, 64, type, (r + 1) % n, step, half);
        double sum = m[0], all;
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_MAX, half);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        MPI_Comm_free(&half);
        for (int i = 0; i < 64; i++) {
            h = hash(h, &got[i].value, sizeof got[i].value);
            h = hash(h, got[i].where, sizeof got[i].where);
        }
        h = hash(h, &all, sizeof all);
        m[(7 * step) % cells] = (double)(h >> 40);
        if (step % 10 == 0)
            printf("rank %d step %d %016llx\n", rank, step, h);
    }
    h = hash(h, m, cells * 8);
    printf("rank %d end %016llx\n", rank, h);
    MPI_Type_free(&type);
    MPI_Comm_free(&ring);
    free(m), free(in);
    MPI_Finalize();
    return 0;
}
