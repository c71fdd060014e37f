/* C++ exceptions in every step: through frames with destructors, thrown again, carried by an
 * exception_ptr out of a thread, and in flight while the step computes.  exceptions STEPS
 *
 * Rank 0 prints a line for every hundredth step, and the result. */
#include "check.h"
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Found : std::runtime_error {
    uint64_t value;
    Found(uint64_t value) : std::runtime_error("found " + std::to_string(value)), value(value) {}
};

thread_local uint64_t unwound;

/* Counts the frames that an exception leaves. */
struct Frame {
    std::string name;
    explicit Frame(int depth) : name("frame " + std::to_string(depth)) {}
    ~Frame() { unwound += name.size(); }
};

uint64_t mix(uint64_t value)
{
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    return value ^ value >> 27;
}

uint64_t compute(uint64_t value, int rounds)
{
    for (int i = 0; i < rounds; i++)
        value = mix(value + i);
    return value;
}

void descend(int depth, uint64_t value)
{
    Frame frame(depth);
    if (depth == 0)
        throw Found(value);
    try {
        descend(depth - 1, mix(value + depth));
    } catch (const Found &found) {
        /* The exception lives while this computes, which is when most images are taken. */
        uint64_t more = compute(found.value, 20000);
        if (depth % 3 == 0)
            throw Found(more);
        throw;
    }
}

/* The exception of a thread, thrown again in this one. */
uint64_t from_thread(uint64_t value)
{
    std::exception_ptr carried;
    std::thread thread([&] {
        try {
            descend(3, value);
        } catch (...) {
            carried = std::current_exception();
        }
    });
    thread.join();
    try {
        std::rethrow_exception(carried);
    } catch (const std::exception &error) {
        return std::string(error.what()).size() + dynamic_cast<const Found &>(error).value;
    }
}

} // namespace

int main(int argc, char **argv)
{
    int rank, given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    CHECK(argc == 2 && given >= MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    uint64_t sum = 1;
    std::map<std::string, std::vector<uint64_t>> kept;
    for (int step = 1; step <= std::atoi(argv[1]); step++) {
        uint64_t mine = 0, all = 0;
        try {
            descend(9, sum + rank);
        } catch (const Found &found) {
            mine = found.value + unwound;
            kept[found.what()].push_back(unwound);
        }
        mine += from_thread(mine + rank);
        /* An exception is in flight during the call, too. */
        try {
            throw std::make_unique<uint64_t>(mine);
        } catch (const std::unique_ptr<uint64_t> &value) {
            MPI_Allreduce(value.get(), &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        }
        sum = mix(sum + all);
        if (rank == 0 && step % 100 == 0)
            std::printf("step %d: %016llx\n", step, (unsigned long long)sum);
        std::fflush(stdout);
    }
    if (rank == 0)
        std::printf("%zu exceptions, %016llx\n", kept.size(), (unsigned long long)sum);
    MPI_Finalize();
}
