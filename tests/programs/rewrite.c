/* All of a rank's memory is written in each round, so every checkpoint has all of it copied.  Ends
 * after so many seconds, or when the file GATE is there.
 *
 *   rewrite MB SECONDS [GATE] */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    CHECK(argc > 2);
    size_t bytes = (size_t)atol(argv[1]) << 20;
    double begun = MPI_Wtime(), seconds = atof(argv[2]);
    char *memory = malloc(bytes);
    CHECK(memory);
    for (int more = 1, round = 0; more; round++) {
        for (size_t at = 0; at < bytes; at += 4096)
            memory[at] = round;
        int mine = MPI_Wtime() - begun < seconds && !(argc > 3 && access(argv[3], F_OK) == 0);
        MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        CHECK(memory[bytes / 2] == (char)round);
    }
    free(memory);
    MPI_Finalize();
    return 0;
}
