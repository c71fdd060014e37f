/* Rank 0 asks, and rank 1 answers: it takes each question by probes, and by tests once a file is
 * there.  If it is lost then, its replay calls other functions than it did before.
 *
 *   changes FILE */
#include "check.h"
#include <unistd.h>

enum { QUESTIONS = 1000000 };

static int question_by(int has_file)
{
    int value, flag = 0;
    MPI_Request request;
    MPI_Status status;
    if (has_file) {
        MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        while (!flag)
            MPI_Test(&request, &flag, &status);
        return value;
    }
    while (!flag)
        MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, &status);
    MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status);
    return value;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 2 && size == 2);
    for (int i = 0; i < QUESTIONS; i++) {
        int value = i;
        if (rank) {
            value = question_by(!access(argv[1], F_OK));
            MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        } else {
            MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        CHECK(value == i);
    }
    MPI_Finalize();
    return 0;
}
