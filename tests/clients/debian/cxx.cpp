// Open MPI's former binding for C++: objects, messages, an operation in C++, and a clone.
#include <mpi.h>
#include <cstdio>

static void larger_of_pairs(const void *from, void *into, int count, const MPI::Datatype &)
{
    const long *a = static_cast<const long *>(from);
    long *b = static_cast<long *>(into);
    for (int i = 0; i < count; i++)
        if (a[i] % 1000 > b[i] % 1000)
            b[i] = a[i];
}

static void product(const void *from, void *into, int count, const MPI::Datatype &)
{
    const long *a = static_cast<const long *>(from);
    long *b = static_cast<long *>(into);
    for (int i = 0; i < count; i++)
        b[i] = a[i] * b[i] % 1000003;
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    MPI::Intracomm all = MPI::COMM_WORLD.Dup();
    const int rank = all.Get_rank(), size = all.Get_size();
    MPI::Op larger, times;
    larger.Init(larger_of_pairs, true);
    times.Init(product, true);
    unsigned long mixed = 1;
    for (int round = 1; round <= 200000; round++) {
        long mine = rank * 7919L + round * 31L + 1, next = 0, most = 0, both = 0;
        MPI::Request sent = all.Isend(&mine, 1, MPI::LONG, (rank + 1) % size, 5);
        MPI::Status status;
        all.Recv(&next, 1, MPI::LONG, MPI::ANY_SOURCE, 5, status);
        sent.Wait();
        if (status.Get_source() != (rank + size - 1) % size)
            all.Abort(1);
        all.Allreduce(&next, &most, 1, MPI::LONG, larger);
        all.Allreduce(&mine, &both, 1, MPI::LONG, times);
        mixed = mixed * 1099511628211ul + most + both;
    }
    if (rank == 0)
        std::printf("the ranks have %lu and agree: %d\n", mixed, size);
    larger.Free();
    times.Free();
    all.Free();
    MPI::Finalize();
}
