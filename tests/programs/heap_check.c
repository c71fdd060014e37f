/* Loaded before a program's libraries (LD_PRELOAD). The handler of a checkpoint request must not
 * use the C library's heap, because it may interrupt a heap function. A handler that uses the heap
 * ends its process with code 99, which ends the job and is no failure. A request that interrupts a
 * heap function creates the file that HEAP_CHECK_STRUCK names.
 *
 * With HEAP_CHECK_TRAP set, the first such request uses the heap here: the check must find that. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* The C library's own functions, under the names that it has beside the usual ones. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
extern int __sigaction(int, const struct sigaction *, struct sigaction *);

static volatile int in_heap, in_handler, trap;
static const char *mark;
static void (*order)(int, siginfo_t *, void *);

static void enter(void)
{
    static const char text[] = "the heap is used in the handler of an order\n";
    if (in_handler) {
        ssize_t written = write(2, text, sizeof text - 1);
        (void)written;
        _exit(99);
    }
    in_heap++;
    /* Long enough that orders strike here. */
    for (volatile int i = 0; i < 3000; i++)
        ;
}

static void leave(void)
{
    in_heap--;
}

void *malloc(size_t size)
{
    enter();
    void *memory = __libc_malloc(size);
    leave();
    return memory;
}

void *calloc(size_t count, size_t size)
{
    enter();
    void *memory = __libc_calloc(count, size);
    leave();
    return memory;
}

void *realloc(void *old, size_t size)
{
    enter();
    void *memory = __libc_realloc(old, size);
    leave();
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    enter();
    void *memory = __libc_memalign(alignment, size);
    leave();
    return memory;
}

void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

int posix_memalign(void **into, size_t alignment, size_t size)
{
    *into = aligned_alloc(alignment, size);
    return *into ? 0 : 12;
}

void free(void *memory)
{
    enter();
    __libc_free(memory);
    leave();
}

static void handle(int signal, siginfo_t *info, void *context)
{
    int middle = in_heap > 0;
    in_handler++;
    if (mark && middle) {
        int before = errno;
        close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        errno = before;
    }
    if (trap && middle)
        free(malloc(1));
    order(signal, info, context);
    in_handler--;
}

int sigaction(int signal, const struct sigaction *new, struct sigaction *old)
{
    struct sigaction ours;
    if (new && signal == SIGRTMAX - 2 && new->sa_flags & SA_SIGINFO) {
        ours = *new;
        order = new->sa_sigaction;
        ours.sa_sigaction = handle;
        new = &ours;
    }
    return __sigaction(signal, new, old);
}

__attribute__((constructor)) static void begin(void)
{
    trap = getenv("HEAP_CHECK_TRAP") != NULL;
    mark = getenv("HEAP_CHECK_STRUCK");
}
