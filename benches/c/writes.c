/* Rates of writing a file of MEBIBYTES, MB/s, printed as "name<TAB>bytes<TAB>value" by rank 0.
 *
 *   writes plain  FILE MEBIBYTES  rank 0 alone, write(2) in pieces of 4 MiB
 *   writes joint  FILE MEBIBYTES  MPI_File_write_at_all, each rank a part of its own, in 16 calls
 *   writes mixed  FILE MEBIBYTES  MPI_File_write_all with views whose blocks of 64 KiB take turns
 *
 * A file that is there is written over. What is in it afterwards is checked at some places. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "session.h"

#define BLOCK (64 << 10)
#define CALLS 16

static int rank, size;

static void die(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void plain(const char *name, const char *bytes, size_t total)
{
    size_t piece = 4 << 20;
    int file = open(name, O_WRONLY | O_CREAT, 0644);
    if (file < 0)
        die(name);
    for (size_t done = 0; done < total; done += piece)
        if (write(file, bytes, piece) != (ssize_t)piece)
            die("write");
    close(file);
}

static void joint(const char *name, const char *bytes, size_t total, int mixed)
{
    MPI_File file;
    MPI_Datatype blocks;
    size_t part = total / size / CALLS;
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file))
        die(name);
    if (mixed) {
        MPI_Type_vector((int)(part / BLOCK), BLOCK, BLOCK * size, MPI_CHAR, &blocks);
        MPI_Type_create_resized(blocks, 0, part * size, &blocks);
        MPI_Type_commit(&blocks);
        MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_CHAR, blocks, "native", MPI_INFO_NULL);
    }
    for (int i = 0; i < CALLS; i++) {
        MPI_Offset at = (MPI_Offset)rank * part * CALLS + i * part;
        int code = mixed ? MPI_File_write_all(file, bytes, (int)part, MPI_CHAR, MPI_STATUS_IGNORE)
                         : MPI_File_write_at_all(file, at, bytes, (int)part, MPI_CHAR, MPI_STATUS_IGNORE);
        if (code)
            die("write_all");
    }
    MPI_File_close(&file);
}

static void check(const char *name, int mixed, size_t total)
{
    FILE *file = fopen(name, "r");
    if (!file)
        die(name);
    for (size_t at = 0; at + BLOCK <= total; at += total / 64) {
        at -= at % BLOCK;
        int from = mixed ? (int)(at / BLOCK % size) : (int)(at / (total / size));
        fseek(file, (long)at, SEEK_SET);
        if (fgetc(file) != 'a' + from)
            die("wrong bytes in the file");
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    own_session();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    size_t total = (size_t)atol(argv[3]) << 20;
    size_t own = total / size > (4 << 20) ? total / size : 4 << 20;
    int mixed = !strcmp(argv[1], "mixed"), alone = !strcmp(argv[1], "plain");
    char *bytes = malloc(own);
    if (!bytes)
        die("memory");
    memset(bytes, 'a' + rank, own);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (!alone)
        joint(argv[2], bytes, total, mixed);
    else if (rank == 0)
        plain(argv[2], bytes, total);
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - start;
    if (rank == 0) {
        if (!alone)
            check(argv[2], mixed, total);
        printf("%s\t%zu\t%.1f\n", argv[1], total, total / took / 1e6);
    }
    MPI_Finalize();
    return 0;
}
