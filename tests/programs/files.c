/* Files by the standard: every family of calls, views, pointers, errors.  The files are in a folder
 * that all ranks see.
 *
 *   files FOLDER */
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <signal.h>

static int rank, size;
static char path[512];
static const int new_file = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;

static MPI_File open_new(MPI_Info info)
{
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, new_file, info, &file) == MPI_SUCCESS);
    return file;
}

static int count_of(MPI_Status *status, MPI_Datatype type)
{
    int n;
    MPI_Get_count(status, type, &n);
    return n;
}

static int open_class(int mode)
{
    MPI_File file = MPI_FILE_NULL;
    int code = MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file);
    if (code == MPI_SUCCESS)
        MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    return class_of(code);
}

static int seen_by_handler;

static void handler(MPI_File *file, int *code, ...)
{
    (void)file;
    seen_by_handler = class_of(*code);
}

static void opening(void)
{
    MPI_File file;
    MPI_Offset bytes;
    MPI_Group group, world;
    int mode, same, flag;
    CHECK(open_class(MPI_MODE_RDONLY) == MPI_ERR_NO_SUCH_FILE);
    CHECK(open_class(MPI_MODE_RDONLY | MPI_MODE_CREATE) == MPI_ERR_AMODE);
    CHECK(open_class(MPI_MODE_RDWR | MPI_MODE_WRONLY) == MPI_ERR_AMODE);
    CHECK(open_class(MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL) == MPI_ERR_AMODE);
    CHECK(open_class(MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY) == MPI_SUCCESS);
    CHECK(open_class(MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY) == MPI_ERR_FILE_EXISTS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(MPI_File_delete(path, MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(class_of(MPI_File_delete(rank ? "/none/none" : path, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
    file = open_new(MPI_INFO_NULL);
    MPI_File_get_amode(file, &mode);
    CHECK(mode == new_file);
    MPI_File_get_group(file, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    CHECK(same == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    CHECK(MPI_File_set_size(file, 1000) == MPI_SUCCESS);
    CHECK(MPI_File_preallocate(file, 10) == MPI_SUCCESS);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == 1000);
    CHECK(MPI_File_preallocate(file, 5000) == MPI_SUCCESS);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == 5000);
    CHECK(class_of(MPI_File_set_size(file, -1)) == MPI_ERR_ARG);
    MPI_File_get_atomicity(file, &flag);
    CHECK(!flag);
    CHECK(MPI_File_fromint(MPI_File_toint(file)) == file);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS && file == MPI_FILE_NULL);
    CHECK(access(path, F_OK) != 0);
}

static void handlers(void)
{
    MPI_Errhandler mine, got;
    MPI_File file;
    char byte = 1;
    MPI_Request request;
    MPI_File_create_errhandler(handler, &mine);
    MPI_File_set_errhandler(MPI_FILE_NULL, mine);
    CHECK(open_class(MPI_MODE_RDONLY) == MPI_ERR_NO_SUCH_FILE);
    CHECK(seen_by_handler == MPI_ERR_NO_SUCH_FILE);
    file = open_new(MPI_INFO_NULL);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_File_get_errhandler(file, &got);
    CHECK(got == mine);
    MPI_Errhandler_free(&got);
    CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
    CHECK(seen_by_handler == MPI_ERR_ARG);
    seen_by_handler = 0;
    MPI_File_iwrite_at_all(file, -1, &byte, 1, MPI_BYTE, &request);
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_ARG);
    CHECK(seen_by_handler == MPI_ERR_ARG);
    MPI_Errhandler_free(&mine);
    MPI_File_close(&file);
}

static void access_rules(void)
{
    MPI_File file;
    char byte = 7;
    if (rank == 0)
        close(open(path, O_CREAT | O_WRONLY, 0600));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_READ_ONLY);
    CHECK(class_of(MPI_File_set_size(file, 1)) == MPI_ERR_READ_ONLY);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file);
    CHECK(class_of(MPI_File_read_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS);
    CHECK(class_of(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE)) ==
          MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(MPI_File_write_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_Offset at;
    MPI_File_get_position(file, &at);
    CHECK(at == size);
    MPI_File_get_position_shared(file, &at);
    CHECK(at == size);
    MPI_File_close(&file);
}

/* Each rank has every size-th block of three ints. */
static MPI_Datatype strided(void)
{
    MPI_Datatype block, mine;
    int whole = 3 * size, part = 3, start = 3 * rank;
    MPI_Type_create_subarray(1, &whole, &part, &start, MPI_ORDER_C, MPI_INT, &block);
    MPI_Type_dup(block, &mine);
    MPI_Type_commit(&mine);
    MPI_Type_free(&block);
    return mine;
}

static void views(MPI_Info info)
{
    MPI_Datatype mine = strided(), etype, filetype;
    MPI_File file = open_new(info);
    MPI_Offset disp, at;
    MPI_Status status;
    MPI_Aint extent;
    char name[MPI_MAX_DATAREP_STRING];
    int out[30], in[30], n;
    CHECK(MPI_File_set_view(file, 8, MPI_INT, mine, "native", info) == MPI_SUCCESS);
    MPI_Type_free(&mine);
    MPI_File_get_view(file, &disp, &etype, &filetype, name);
    MPI_Type_size(filetype, &n);
    CHECK(disp == 8 && etype == MPI_INT && n == 12 && !strcmp(name, "native"));
    MPI_Type_free(&filetype);
    MPI_File_get_type_extent(file, MPI_DOUBLE, &extent);
    CHECK(extent == 8);
    for (int i = 0; i < 30; i++)
        out[i] = 100 * rank + i;
    MPI_File_write_all(file, out, 15, MPI_INT, &status);
    CHECK(count_of(&status, MPI_INT) == 15);
    MPI_File_write(file, out + 15, 15, MPI_INT, &status);
    MPI_File_get_position(file, &at);
    CHECK(at == 30);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_get_byte_offset(file, 4, &disp);
    CHECK(disp == 8 + 4 * (3 * size + 3 * rank + 1));
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &at);
    CHECK(at == 30);
    MPI_File_seek(file, -30, MPI_SEEK_CUR);
    MPI_File_read_all(file, in, 30, MPI_INT, &status);
    CHECK(count_of(&status, MPI_INT) == 30 && !memcmp(in, out, sizeof in));
    MPI_File_read_at(file, 25, in, 30, MPI_INT, &status);
    CHECK(count_of(&status, MPI_INT) == 5 && !memcmp(in, out + 25, 20));
    MPI_File_read_at_all_c(file, 28, in, 30, MPI_INT, &status);
    CHECK(count_of(&status, MPI_INT) == 2 && !memcmp(in, out + 28, 8));
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 2 + 3 * size, in, 3, MPI_INT, &status);
    CHECK(in[0] == 3 && in[1] == 4 && in[2] == 5);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "mine", MPI_INFO_NULL)) ==
          MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK(class_of(MPI_File_set_view(file, rank ? 0 : -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)) ==
          MPI_ERR_ARG);
    MPI_File_close(&file);
}

static void hints(void)
{
    static const char *switches[][2] = {
        { "romio_cb_write", "enable" }, { "romio_cb_write", "disable" }, { "romio_cb_read", "enable" },
        { "romio_ds_write", "enable" }, { "romio_ds_read", "enable" }, { "romio_ds_read", "disable" },
        { "cb_buffer_size", "64" }, { "cb_nodes", "2" }, { "striping_unit", "65536" },
    };
    char value[32];
    int flag, len = sizeof value;
    for (unsigned i = 0; i < sizeof switches / sizeof *switches; i++) {
        MPI_Info info, used;
        MPI_Info_create(&info);
        MPI_Info_set(info, switches[i][0], switches[i][1]);
        views(info);
        MPI_File file = open_new(info);
        MPI_File_get_info(file, &used);
        MPI_Info_get_string(used, switches[i][0], &len, value, &flag);
        CHECK(flag && !strcmp(value, switches[i][1]));
        len = sizeof value;
        MPI_Info_free(&used);
        MPI_Info_set(info, "cb_buffer_size", "4096");
        MPI_File_set_info(file, info);
        MPI_Info_free(&info);
        MPI_File_get_info(file, &used);
        MPI_Info_get_string(used, "cb_buffer_size", &len, value, &flag);
        CHECK(flag && !strcmp(value, "4096"));
        len = sizeof value;
        MPI_Info_free(&used);
        MPI_File_close(&file);
    }
}

static void nonblocking(void)
{
    MPI_File file = open_new(MPI_INFO_NULL);
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int out[4] = { rank, rank + 1, rank + 2, rank + 3 }, in[4] = { 0 };
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_iwrite_at_all(file, rank, out, 1, MPI_INT, &requests[0]);
    MPI_File_iwrite_at(file, size + rank, out + 1, 1, MPI_INT, &requests[1]);
    MPI_File_seek(file, 2 * size + rank, MPI_SEEK_SET);
    MPI_File_iwrite(file, out + 2, 1, MPI_INT, &requests[2]);
    MPI_File_seek(file, 3 * size + rank, MPI_SEEK_SET);
    MPI_File_iwrite_all(file, out + 3, 1, MPI_INT, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    for (int i = 0; i < 4; i++)
        CHECK(count_of(&statuses[i], MPI_INT) == 1);
    MPI_Barrier(MPI_COMM_WORLD);
    int peer = (rank + 1) % size;
    MPI_File_iread_at(file, peer, in, 1, MPI_INT, &requests[0]);
    MPI_File_iread_at_all(file, size + peer, in + 1, 1, MPI_INT, &requests[1]);
    MPI_File_seek(file, 2 * size + peer, MPI_SEEK_SET);
    MPI_File_iread_all(file, in + 2, 1, MPI_INT, &requests[2]);
    MPI_File_seek(file, 3 * size + peer, MPI_SEEK_SET);
    MPI_File_iread(file, in + 3, 1, MPI_INT, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    for (int i = 0; i < 4; i++)
        CHECK(in[i] == peer + i && count_of(&statuses[i], MPI_INT) == 1);
    MPI_File_close(&file);
}

static void split(void)
{
    MPI_File file = open_new(MPI_INFO_NULL);
    MPI_Status status;
    int out[2] = { rank, -rank }, in[2];
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(MPI_File_write_all_end(file, out, &status) != MPI_SUCCESS);
    MPI_File_write_at_all_begin(file, 2 * rank, out, 2, MPI_INT);
    CHECK(MPI_File_set_size(file, 0) != MPI_SUCCESS);
    MPI_File_write_at_all_end(file, out, &status);
    CHECK(count_of(&status, MPI_INT) == 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek(file, 2 * rank, MPI_SEEK_SET);
    MPI_File_read_all_begin(file, in, 2, MPI_INT);
    MPI_File_read_all_end(file, in, &status);
    CHECK(in[0] == rank && in[1] == -rank);
    MPI_File_write_ordered_begin(file, out, 1, MPI_INT);
    MPI_File_write_ordered_end(file, out, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all_begin(file, rank, in, 1, MPI_INT);
    MPI_File_read_at_all_end(file, in, &status);
    CHECK(in[0] == rank && count_of(&status, MPI_INT) == 1);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered_begin(file, in, 1, MPI_INT);
    MPI_File_read_ordered_end(file, in, &status);
    CHECK(in[0] == rank);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    MPI_File_write_all_begin(file, out, 1, MPI_INT);
    MPI_File_write_all_end(file, out, &status);
    MPI_File_close(&file);
}

static void shared(void)
{
    MPI_File file = open_new(MPI_INFO_NULL);
    MPI_Status status;
    MPI_Request request;
    MPI_Offset at;
    int rounds = 50, sum = 0, all, want = 0;
    int *mine = malloc(rounds * sizeof *mine);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < rounds; i++) {
        mine[i] = rank * rounds + i;
        if (i % 2)
            MPI_File_write_shared(file, mine + i, 1, MPI_INT, &status);
        else {
            MPI_File_iwrite_shared(file, mine + i, 1, MPI_INT, &request);
            MPI_Wait(&request, &status);
        }
        CHECK(count_of(&status, MPI_INT) == 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &at);
    CHECK(at == rounds * size);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (int i = 0; i < rounds; i++) {
        int one;
        if (i % 2)
            MPI_File_read_shared(file, &one, 1, MPI_INT, &status);
        else {
            MPI_File_iread_shared(file, &one, 1, MPI_INT, &request);
            MPI_Wait(&request, &status);
        }
        sum += one;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < rounds * size; i++)
        want += i;
    CHECK(all == want);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered(file, mine, 1 + rank % 2, MPI_INT, &status);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered(file, mine + 2, 1 + rank % 2, MPI_INT, &status);
    CHECK(mine[2] == rank * rounds && count_of(&status, MPI_INT) == 1 + rank % 2);
    CHECK(class_of(MPI_File_seek_shared(file, rank, MPI_SEEK_SET)) ==
          (size > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS));
    free(mine);
    MPI_File_close(&file);
}

/* A file that each rank opens for itself has one shared pointer for each. */
static void own_pointers(void)
{
    MPI_File file;
    MPI_Offset at;
    char bytes[64] = { 0 };
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_shared(file, bytes, rank + 1, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &at);
    CHECK(at == rank + 1);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(MPI_File_delete(path, MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* In atomic mode a read sees all of a write or nothing. */
static void atomic_mode(void)
{
    enum { LENGTH = 10000, ROUNDS = 20 };
    MPI_File file = open_new(MPI_INFO_NULL);
    int flag, *buffer = calloc(LENGTH, sizeof *buffer);
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    MPI_File_get_atomicity(file, &flag);
    CHECK(flag);
    if (rank == 0)
        MPI_File_write_at(file, 0, buffer, LENGTH, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank % 2 == 0) {
            for (int i = 0; i < LENGTH; i++)
                buffer[i] = 1000 * rank + round;
            MPI_File_write_at(file, 0, buffer, LENGTH, MPI_INT, MPI_STATUS_IGNORE);
        } else {
            MPI_File_read_at(file, 0, buffer, LENGTH, MPI_INT, MPI_STATUS_IGNORE);
            for (int i = 1; i < LENGTH; i++)
                CHECK(buffer[i] == buffer[0]);
        }
    }
    free(buffer);
    MPI_File_close(&file);
}

static void representation(void)
{
    MPI_File file = open_new(MPI_INFO_NULL);
    int out = 0x01020304 + rank, in;
    unsigned char bytes[4];
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    MPI_File_write_at_all(file, rank, &out, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(file, rank, &in, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(in == out);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "internal", MPI_INFO_NULL);
    MPI_File_read_at(file, 4 * rank, bytes, 4, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(bytes[0] == 1 && bytes[1] == 2 && bytes[2] == 3 && bytes[3] == 4 + rank);
    MPI_File_close(&file);
}

/* A limit on the size of files: an error on all ranks, none waits. */
static void no_room(void)
{
    struct rlimit limit, before;
    MPI_File file = open_new(MPI_INFO_NULL);
    char block[4096] = { 1 };
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 8192;
    if (rank == size - 1)
        setrlimit(RLIMIT_FSIZE, &limit);
    int code = MPI_File_write_at_all(file, 8192 + 4096 * rank, block, 4096, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO || class_of(code) == MPI_ERR_NO_SPACE);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(MPI_File_write_at_all(file, 4096 * rank, block, 4096, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_File_close(&file);
}

/* Nobody makes files here. */
static void forbidden_folder(void)
{
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, "/proc/self/none", MPI_MODE_CREATE | MPI_MODE_WRONLY,
                             MPI_INFO_NULL, &file);
    int class = class_of(code);
    CHECK(class == MPI_ERR_ACCESS || class == MPI_ERR_READ_ONLY || class == MPI_ERR_NO_SUCH_FILE);
    code = MPI_File_open(MPI_COMM_WORLD, "/", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_BAD_FILE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1);
    snprintf(path, sizeof path, "ufs:%s/data", argv[1]);
    views(MPI_INFO_NULL);
    snprintf(path, sizeof path, "%s/data", argv[1]);
    opening();
    handlers();
    access_rules();
    hints();
    nonblocking();
    split();
    shared();
    own_pointers();
    atomic_mode();
    representation();
    no_room();
    forbidden_folder();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("files: right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
