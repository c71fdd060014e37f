/* Persistent requests, point-to-point and collective, started and completed in every way.
 *
 *   persistent [LENGTH [STEPS]] */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = argc > 1 ? atoi(argv[1]) : 20000, steps = argc > 2 ? atoi(argv[2]) : 200;
    double *out = malloc((size_t)n * 8), *in = malloc((size_t)n * 8), sum[2], all[2];
    long token = rank, turned = 0;
    CHECK(out && in && n > 0);
    for (int i = 0; i < n; i++)
        out[i] = rank + i * 1e-3;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Request r[4], reduce;
    MPI_Recv_init(in, n, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out, n, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &r[1]);
    MPI_Recv_init(&turned, 1, MPI_LONG, right, 2, MPI_COMM_WORLD, &r[2]);
    MPI_Ssend_init(&token, 1, MPI_LONG, left, 2, MPI_COMM_WORLD, &r[3]);
    MPI_Allreduce_init(sum, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &reduce);
    for (int step = 1; step <= steps; step++) {
        sum[0] = out[step % n], sum[1] = (double)token;
        MPI_Startall(4, r);
        MPI_Start(&reduce);
        int done = 0, index;
        while (!done)
            MPI_Test(&r[2], &done, MPI_STATUS_IGNORE);
        MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
        MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
        MPI_Wait(&reduce, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            out[i] = 0.5 * (out[i] + in[i]) + all[0] * 1e-9;
        token = turned + (long)(all[1]) % 1000;
        if (step % 20 == 0)
            printf("rank %d step %d %a token %ld\n", rank, step, out[step % n], token);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&r[i]);
    MPI_Request_free(&reduce);
    free(out), free(in);
    MPI_Finalize();
    return 0;
}
