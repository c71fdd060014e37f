/* Shared by the test programs: a check that prints where it failed and ends the job. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            int check_rank_ = -1;                                                         \
            MPI_Comm_rank(MPI_COMM_WORLD, &check_rank_);                                  \
            fprintf(stderr, "%s:%d: rank %d: %s is false\n", __FILE__, __LINE__, check_rank_, #what); \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                 \
        }                                                                                 \
    } while (0)

/* The error class of a call's result. */
static inline int class_of(int code)
{
    int c = -1;
    MPI_Error_class(code, &c);
    return c;
}

/* A small generator with a printed seed, the same on every rank. */
static inline unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The number of this process as files of /proc tell it. */
static inline long number_in_proc(void)
{
    char text[32] = { 0 };
    CHECK(readlink("/proc/self", text, sizeof text - 1) > 0);
    return atol(text);
}

/* The number that an open file /proc/PID/status tells. */
static inline long number_in_status(int status)
{
    char text[256];
    ssize_t length = pread(status, text, sizeof text - 1, 0);
    CHECK(length > 0);
    text[length] = 0;
    char *line = strstr(text, "\nPid:");
    CHECK(line);
    return atol(line + 5);
}

/* Whether the ranks go on, as the first one sees it: this file is not there yet. */
static inline int is_closed(const char *gate)
{
    int rank, closed;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    closed = rank == 0 && gate && access(gate, F_OK) != 0;
    MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return closed;
}
#endif
