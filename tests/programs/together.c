/* Ranks that map memory together: a file of /dev/shm, and a file on disk. They add to counters
 * there with atomics and under a process-shared mutex, spin until all have done so, and exchange
 * messages. The last rank maps the memory a second time, for reading only.
 *
 *   together ROUNDS|WAY FILE      ends after so many rounds; FILE is the beginning of names
 *   together until GATE           until GATE exists; the names begin with it
 *   together after GATE           so after MPI_Finalize, with the memory still mapped */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 64, WORDS = 3000 };

/* Memory of all ranks. */
struct common {
    pthread_mutex_t mutex;
    _Atomic uint64_t sum;
    _Atomic uint64_t arrived;
    uint64_t guarded, guarded_again;
    uint64_t words[WORDS];
    /* By number of rank, through the descriptor. */
    uint64_t written[MOST];
};

static int rank, size;

static struct common *map(int fd, int access)
{
    void *at = mmap(NULL, sizeof(struct common), access, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void begin(struct common *c, int robust)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    CHECK(pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) == 0);
    if (robust)
        CHECK(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&c->mutex, &kind) == 0);
}

/* The first rank makes the file anew, the others open it. */
static int open_common(const char *path)
{
    int fd = -1;
    if (rank == 0) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, sizeof(struct common)) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    return fd;
}

static void add(struct common *c, uint64_t round)
{
    uint64_t mine = round * 31 + (uint64_t)rank;
    atomic_fetch_add(&c->sum, mine);
    int locked = pthread_mutex_lock(&c->mutex);
    /* Its owner was killed: a rollback follows. */
    while (locked == EOWNERDEAD || locked == ENOTRECOVERABLE)
        pause();
    CHECK(locked == 0);
    uint64_t before = c->guarded;
    c->words[(round * 7 + (uint64_t)rank) % WORDS] += mine;
    c->guarded = before + mine;
    /* Held for long enough for kills and checkpoints to come meanwhile. */
    for (volatile int i = 0; i < 2000; i++)
        ;
    c->guarded_again += mine;
    CHECK(c->guarded == before + mine && c->guarded == c->guarded_again);
    CHECK(pthread_mutex_unlock(&c->mutex) == 0);
}

/* Waits in the program's own code until all ranks have come. */
static void meet(struct common *c, uint64_t times)
{
    atomic_fetch_add(&c->arrived, 1);
    while (atomic_load(&c->arrived) < times * (uint64_t)size)
        sched_yield();
}

/* What goes through the descriptor is seen in the memory. */
static void write_through(int fd, const struct common *c, uint64_t round)
{
    off_t at = (off_t)(offsetof(struct common, written) + sizeof round * (size_t)rank);
    CHECK(pwrite(fd, &round, sizeof round, at) == sizeof round);
    CHECK(c->written[rank] == round);
}

static uint64_t of_words(const struct common *c)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += c->words[i];
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 2 && size <= MOST);
    int after = !strcmp(argv[1], "after");
    const char *gate = strcmp(argv[1], "until") ? NULL : argv[2];
    uint64_t rounds = gate ? UINT64_MAX : after ? 100 : (uint64_t)atol(argv[1]);
    char on_disk[4096], in_memory[4096], key[200];
    snprintf(on_disk, sizeof on_disk, "%s.common", argv[2]);
    int at = 0;
    for (const char *c = argv[2]; *c && at < 190; c++)
        key[at++] = *c == '/' ? '_' : *c;
    key[at] = 0;
    snprintf(in_memory, sizeof in_memory, "/dev/shm/rejoin-together%s", key);
    int memory = open_common(in_memory), disk = open_common(on_disk);
    int both = PROT_READ | PROT_WRITE;
    struct common *all[2] = { map(memory, both), map(disk, both) };
    const struct common *seen = rank == size - 1 ? map(memory, PROT_READ) : all[0];
    /* The first file is closed, the second stays open. */
    CHECK(close(memory) == 0);
    if (rank == 0)
        for (int i = 0; i < 2; i++)
            begin(all[i], i);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t expected = 0, round = 1, go_on = 1;
    for (; round <= rounds && go_on; round++) {
        for (int i = 0; i < 2; i++) {
            add(all[i], round);
            meet(all[i], round);
        }
        write_through(disk, all[1], round);
        for (int r = 0; r < size; r++)
            expected += round * 31 + (uint64_t)r;
        for (int i = 0; i < 2; i++) {
            CHECK(atomic_load(&all[i]->sum) == expected);
            CHECK(all[i]->guarded == expected && of_words(all[i]) == expected);
        }
        CHECK(seen->guarded == expected);
        uint64_t theirs = 0;
        MPI_Sendrecv(&expected, 1, MPI_UINT64_T, (rank + 1) % size, 1, &theirs, 1, MPI_UINT64_T,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(theirs == expected);
        if (gate && rank == 0)
            go_on = access(gate, F_OK) != 0;
        /* Nobody adds before all have looked. */
        MPI_Bcast(&go_on, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!gate && round % 50 == 0)
            printf("rank %d: %llu after %llu\n", rank, (unsigned long long)expected,
                   (unsigned long long)round);
    }
    char own[4200];
    snprintf(own, sizeof own, "%s.%d", argv[2], rank);
    FILE *file = fopen(own, "w");
    CHECK(file);
    if (!gate)
        fprintf(file, "%llu\n", (unsigned long long)all[1]->guarded);
    CHECK(fclose(file) == 0);
    printf("rank %d: all sums were right\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (after) {
        MPI_Finalize();
        printf("left\n");
        fflush(stdout);
        while (access(argv[2], F_OK) != 0)
            usleep(1000);
        unlink(in_memory);
        return 0;
    }
    for (int i = 0; i < 2; i++)
        CHECK(munmap(all[i], sizeof(struct common)) == 0);
    if (seen != all[0])
        CHECK(munmap((void *)seen, sizeof(struct common)) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(unlink(in_memory) == 0);
    MPI_Finalize();
    return 0;
}
