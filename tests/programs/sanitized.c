/* A program with AddressSanitizer, which has terabytes of address space for its shadow memory:
 * blocks come and go.
 *
 *   sanitized GATE      until GATE exists */
#include "check.h"
#include <sanitizer/asan_interface.h>

enum { BLOCKS = 500 };

int main(int argc, char **argv)
{
    static char *block[BLOCKS];
    static unsigned length[BLOCKS];
    int rank;
    CHECK(argc > 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned seed = 7 + (unsigned)rank;
    while (is_closed(argv[1])) {
        for (int i = 0; i < 20; i++) {
            unsigned at = next_random(&seed) % BLOCKS;
            if (block[at]) {
                for (unsigned b = 0; b < length[at]; b++)
                    CHECK(block[at][b] == (char)(at + b));
                CHECK(__asan_address_is_poisoned(block[at] + length[at]));
                free(block[at]);
                block[at] = NULL;
            } else {
                length[at] = 1 + next_random(&seed) % 9000;
                block[at] = malloc(length[at]);
                for (unsigned b = 0; b < length[at]; b++)
                    block[at][b] = (char)(at + b);
            }
        }
        usleep(1000);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    printf("rank %d is through\n", rank);
    MPI_Finalize();
    return 0;
}
