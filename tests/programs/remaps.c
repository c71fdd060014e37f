/* Memory that comes, goes, grows, moves and loses its contents all the time: what copies of a
 * process ahead of its move must follow.  remaps STEPS
 *
 * Each area of memory has a seed, from which each of its pages follows; a page may also be dropped
 * (it reads as zeros) or be read only. After each step all of an area is checked. */
#define _GNU_SOURCE
#include "check.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREAS = 24, MOST = 300, PAGE = 4096 };

struct area {
    unsigned char *at;
    unsigned pages, seed[MOST];
    int fixed;
};

static struct area areas[AREAS];
static unsigned dice;

static unsigned below(unsigned n)
{
    return next_random(&dice) % n;
}

static uint64_t word(unsigned seed, unsigned at)
{
    uint64_t x = ((uint64_t)seed << 32 | at) * 0x9e3779b97f4a7c15ull;
    return seed ? x ^ x >> 29 : 0;
}

static void write_page(struct area *a, unsigned page)
{
    uint64_t *to = (uint64_t *)(a->at + (size_t)page * PAGE);
    a->seed[page] = 1 + below(1000000);
    for (unsigned i = 0; i < PAGE / 8; i++)
        to[i] = word(a->seed[page], i);
}

static void check(const struct area *a)
{
    for (unsigned page = 0; page < a->pages; page++) {
        const uint64_t *from = (const uint64_t *)(a->at + (size_t)page * PAGE);
        for (unsigned i = 0; i < PAGE / 8; i += 37)
            CHECK(from[i] == word(a->seed[page], i));
    }
}

static unsigned char *map(unsigned pages)
{
    void *at = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* One of few lengths, so that areas can exchange places as a whole. */
static unsigned some_pages(void)
{
    return (1 + below(4)) * MOST / 4;
}

static void begin(struct area *a)
{
    a->pages = some_pages();
    a->at = map(a->pages);
    a->fixed = 0;
    memset(a->seed, 0, sizeof a->seed);
}

static void resize(struct area *a)
{
    unsigned pages = some_pages();
    void *at = mremap(a->at, (size_t)a->pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    for (unsigned page = a->pages; page < pages; page++)
        a->seed[page] = 0;
    a->at = at;
    a->pages = pages;
}

/* Two areas of the same length exchange places: each page is at the address of another one. */
static void exchange(struct area *a, struct area *b)
{
    unsigned pages = a->pages;
    size_t bytes = (size_t)pages * PAGE;
    unsigned char *aside = map(pages);
    CHECK(mremap(a->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside);
    CHECK(mremap(b->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, a->at) == a->at);
    CHECK(mremap(aside, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, b->at) == b->at);
    for (unsigned page = 0; page < pages; page++) {
        unsigned seed = a->seed[page];
        a->seed[page] = b->seed[page];
        b->seed[page] = seed;
    }
}

static void change(struct area *a)
{
    size_t bytes = (size_t)a->pages * PAGE;
    unsigned from = below(a->pages), count = 1 + below(a->pages - from);
    if (a->fixed) {
        CHECK(mprotect(a->at, bytes, PROT_READ | PROT_WRITE) == 0);
        a->fixed = 0;
    }
    switch (below(8)) {
    case 0:
        munmap(a->at, bytes);
        begin(a);
        break;
    case 1:
        resize(a);
        break;
    case 2:
        CHECK(madvise(a->at + (size_t)from * PAGE, (size_t)count * PAGE, MADV_DONTNEED) == 0);
        memset(a->seed + from, 0, count * sizeof *a->seed);
        break;
    case 3: {
        struct area *b = &areas[below(AREAS)];
        if (b != a && b->pages == a->pages && !b->fixed)
            exchange(a, b);
        break;
    }
    case 4:
        CHECK(mprotect(a->at, bytes, PROT_READ) == 0);
        a->fixed = 1;
        break;
    default:
        for (unsigned page = from; page < from + count; page++)
            write_page(a, page);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    CHECK(argc > 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = atoi(argv[1]), next = (rank + 1) % size, last = (rank + size - 1) % size;
    dice = 77 + rank;
    for (int i = 0; i < AREAS; i++)
        begin(&areas[i]);
    char *heap = NULL;
    for (int step = 1; step <= steps; step++) {
        struct area *a = &areas[below(AREAS)];
        change(a);
        check(a);
        /* The heap of the C library grows and shrinks. */
        size_t bytes = 1 + below(400000);
        free(heap);
        heap = malloc(bytes);
        CHECK(heap);
        memset(heap, step, bytes);
        unsigned mine = a->seed[0] + step, other;
        MPI_Sendrecv(&mine, 1, MPI_UNSIGNED, next, 1, &other, 1, MPI_UNSIGNED, last, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        dice ^= other;
        CHECK(heap[bytes - 1] == (char)step);
        if (step % 100 == 0) {
            for (int i = 0; i < AREAS; i++)
                check(&areas[i]);
            printf("rank %d, step %d: %08x\n", rank, step, dice);
            fflush(stdout);
        }
    }
    free(heap);
    MPI_Finalize();
    return 0;
}
