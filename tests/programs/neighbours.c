/* Asks again and again which ranks share a host, and calls MPI_Rejoin whenever its process is a new
 * one, until FILE exists. Then each rank says with which ranks it can share memory.
 *
 *   neighbours FILE */
#include "check.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, over = 0;
    MPI_Init(&argc, &argv);
    CHECK(argc > 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Group all, here;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    char text[256];
    pid_t process = getpid();
    while (!over) {
        int mine = !access(argv[1], F_OK);
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (getpid() != process) {
            process = getpid();
            CHECK(MPI_Rejoin() == MPI_SUCCESS);
        }
        MPI_Comm host;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
        MPI_Comm_group(host, &here);
        int size, at = snprintf(text, sizeof text, "rank %d shares memory with", rank);
        MPI_Comm_size(host, &size);
        for (int i = 0; i < size; i++) {
            int one;
            MPI_Group_translate_ranks(here, 1, &i, all, &one);
            at += snprintf(text + at, sizeof text - at, " %d", one);
        }
        MPI_Group_free(&here);
        MPI_Comm_free(&host);
        usleep(2000);
    }
    MPI_Group_free(&all);
    puts(text);
    MPI_Finalize();
    return 0;
}
