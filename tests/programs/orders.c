/* A server answers clients in the order in which their questions come, and the answer depends on
 * that order: it is a digest of all questions so far.  In the end the server's digests are compared
 * with those that the clients were told.  So a server that comes back and answers in another order
 * than before is found, whatever came of it.  The ways of receiving take turns: a receive with
 * wildcards, one that may be cancelled, probes, a test loop, any-calls, some-calls.  All ranks also
 * take part in nonblocking collectives meanwhile.
 *
 *   orders [QUESTIONS per client [WORK per question [WORK per answer [GATE [HOLDS]]]]]
 *
 * With GATE all wait at last until that file is there, however fast the machine is.  They ask no
 * further questions then, however slow it is; only a first part is asked in any case.  HOLDS is a
 * folder: before its question (or answer) with a number a rank waits while the file
 * at-RANK-NUMBER is there, and makes the file here-RANK-NUMBER before. */
#include "check.h"
#include <unistd.h>

enum { QUESTION = 1, ANSWER, TOLD };

typedef unsigned long long u64;

struct answer {
    u64 number, digest;
};

/* An answer on its way; whether it is the last one to this client. */
struct reply {
    struct answer answer;
    u64 last;
};

static int rank, size, questions, work, answer_work;
static const char *gate, *holds;
static MPI_Comm asking; /* of the questions, which are received with any tag */

static u64 mix(u64 h, u64 v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static u64 busy(u64 seed, int steps)
{
    for (int i = 0; i < steps; i++)
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed;
}

static void hold(int number)
{
    char at[4096], here[4096];
    if (!holds)
        return;
    snprintf(at, sizeof at, "%s/at-%d-%d", holds, rank, number);
    if (access(at, F_OK) != 0)
        return;
    snprintf(here, sizeof here, "%s/here-%d-%d", holds, rank, number);
    FILE *file = fopen(here, "w");
    CHECK(file && fclose(file) == 0);
    while (access(at, F_OK) == 0)
        usleep(1000);
}

/* Clients whose questions one some-call has found, and that were not answered yet. */
static int *found, found_count;

/* Takes the next question in the way of this turn; one receive is posted per client for the ways
 * that need requests. */
static int next_question(int turn, u64 *value, MPI_Request *posted, u64 *values)
{
    MPI_Status status;
    int index = MPI_UNDEFINED, flag = 0;
    switch (found_count ? -1 : turn % 5) {
    case -1:
        index = found[--found_count];
        break;
    case 4:
        MPI_Waitsome(size, posted, &found_count, found, MPI_STATUSES_IGNORE);
        CHECK(found_count > 0);
        index = found[--found_count];
        break;
    case 0:
        MPI_Waitany(size, posted, &index, &status);
        break;
    case 1:
        while (!flag)
            MPI_Testany(size, posted, &index, &flag, &status);
        break;
    case 2: {
        int count = 0, *done = malloc(size * sizeof *done);
        /* One at a time: the first that is there. */
        for (int i = 1; !count; i = i % (size - 1) + 1)
            if (posted[i] != MPI_REQUEST_NULL) {
                MPI_Testsome(1, &posted[i], &count, done, &status);
                index = i;
            }
        free(done);
        break;
    }
    default:
        for (int i = 1; !flag; i = i % (size - 1) + 1)
            if (posted[i] != MPI_REQUEST_NULL) {
                MPI_Test(&posted[i], &flag, &status);
                index = i;
            }
        break;
    }
    *value = values[index];
    return index;
}

/* Questions of the first part come over requests, the others by wildcards and probes. Returns the
 * number of questions. */
static int serve(struct answer *told)
{
    int clients = size - 1, half = questions / (gate ? 16 : 2), n = 0;
    int *left = calloc(size, sizeof *left), *asked = calloc(size, sizeof *asked);
    u64 *values = calloc(size, sizeof *values), digest = 1;
    MPI_Request *posted = malloc(size * sizeof *posted);
    found = calloc(size, sizeof *found);
    posted[0] = MPI_REQUEST_NULL;
    for (int i = 1; i < size; i++) {
        left[i] = half;
        posted[i] = MPI_REQUEST_NULL;
        if (half)
            MPI_Irecv(&values[i], 1, MPI_UNSIGNED_LONG_LONG, i, QUESTION, asking, &posted[i]);
    }
    for (int asking_on = clients; asking_on; n++) {
        u64 value = 0;
        int from;
        hold(n);
        if (n < half * clients) {
            from = next_question(n, &value, posted, values);
            if (--left[from])
                MPI_Irecv(&values[from], 1, MPI_UNSIGNED_LONG_LONG, from, QUESTION, asking,
                          &posted[from]);
        } else {
            MPI_Status status;
            MPI_Message message;
            MPI_Request request;
            int flag = 0;
            switch (n % 5) {
            case 4:
                MPI_Irecv(&value, 1, MPI_UNSIGNED_LONG_LONG, MPI_ANY_SOURCE, QUESTION, asking,
                          &request);
                MPI_Cancel(&request);
                MPI_Wait(&request, &status);
                MPI_Test_cancelled(&status, &flag);
                if (!flag)
                    break;
                /* Nothing was there. */
                /* fall through */
            case 0:
                MPI_Recv(&value, 1, MPI_UNSIGNED_LONG_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, asking,
                         &status);
                break;
            case 1:
                MPI_Probe(MPI_ANY_SOURCE, QUESTION, asking, &status);
                MPI_Recv(&value, 1, MPI_UNSIGNED_LONG_LONG, status.MPI_SOURCE, QUESTION, asking,
                         &status);
                break;
            case 2:
                while (!flag)
                    MPI_Iprobe(MPI_ANY_SOURCE, QUESTION, asking, &flag, &status);
                MPI_Recv(&value, 1, MPI_UNSIGNED_LONG_LONG, status.MPI_SOURCE, QUESTION, asking,
                         &status);
                break;
            default:
                while (!flag)
                    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, asking, &flag, &message, &status);
                MPI_Mrecv(&value, 1, MPI_UNSIGNED_LONG_LONG, &message, &status);
            }
            from = status.MPI_SOURCE;
        }
        CHECK(value == mix(from, asked[from]));
        asked[from]++;
        CHECK(busy(value, answer_work) != 1);
        digest = mix(digest, value);
        told[n].number = n;
        told[n].digest = digest;
        int is_over = n >= half * clients && gate && access(gate, F_OK) == 0;
        struct reply reply = {told[n], is_over || asked[from] == questions};
        asking_on -= reply.last;
        MPI_Send(&reply, 3, MPI_UNSIGNED_LONG_LONG, from, ANSWER, MPI_COMM_WORLD);
    }
    CHECK(!found_count);
    free(found);
    free(left);
    free(asked);
    free(values);
    free(posted);
    return n;
}

/* Returns the number of questions. */
static int ask(struct answer *told)
{
    struct reply reply = {{0, 0}, 0};
    int i = 0;
    for (; !reply.last; i++) {
        u64 question = mix(rank, i);
        hold(i);
        MPI_Send(&question, 1, MPI_UNSIGNED_LONG_LONG, 0, QUESTION, asking);
        CHECK(busy(question, work) != 1);
        MPI_Recv(&reply, 3, MPI_UNSIGNED_LONG_LONG, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        told[i] = reply.answer;
        CHECK(i == 0 || told[i].number > told[i - 1].number);
    }
    return i;
}

static void wait_for_gate(void)
{
    for (int closed = 1; closed;) {
        if (rank == 0) {
            usleep(1000);
            closed = access(gate, F_OK) != 0;
        }
        MPI_Bcast(&closed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &asking);
    questions = argc > 1 ? atoi(argv[1]) : 1000;
    work = argc > 2 ? atoi(argv[2]) : 1000;
    answer_work = argc > 3 ? atoi(argv[3]) : 0;
    gate = argc > 4 && *argv[4] ? argv[4] : NULL;
    holds = argc > 5 ? argv[5] : NULL;
    CHECK(size > 1 && questions > 0);
    int all = questions * (size - 1);
    struct answer *told = calloc(rank ? questions : all, sizeof *told);
    long mine[2] = {rank, 1}, sums[2][2];
    MPI_Request sum[2];
    /* Two collectives are under way while questions are asked. */
    MPI_Iallreduce(mine, sums[0], 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &sum[0]);
    MPI_Iallreduce(mine, sums[1], 2, MPI_LONG, MPI_MAX, MPI_COMM_WORLD, &sum[1]);
    int count = rank ? ask(told) : serve(told);
    if (gate)
        wait_for_gate();
    MPI_Waitall(2, sum, MPI_STATUSES_IGNORE);
    CHECK(sums[0][0] == (long)size * (size - 1) / 2 && sums[0][1] == size && sums[1][0] == size - 1);
    if (rank) {
        MPI_Send(told, 2 * count, MPI_UNSIGNED_LONG_LONG, 0, TOLD, MPI_COMM_WORLD);
    } else {
        struct answer *heard = calloc(questions, sizeof *heard);
        int others = 0;
        for (int from = 1; from < size; from++) {
            MPI_Status status;
            int words;
            MPI_Recv(heard, 2 * questions, MPI_UNSIGNED_LONG_LONG, from, TOLD, MPI_COMM_WORLD,
                     &status);
            MPI_Get_count(&status, MPI_UNSIGNED_LONG_LONG, &words);
            for (int i = 0; i < words / 2; i++)
                CHECK(heard[i].number < (u64)count && heard[i].digest == told[heard[i].number].digest);
            others += words / 2;
        }
        CHECK(others == count);
        free(heard);
        printf("%d questions were answered in one order\n", count);
    }
    free(told);
    MPI_Comm_free(&asking);
    MPI_Finalize();
    return 0;
}
