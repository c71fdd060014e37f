"""mpi4py on Rejoin: each rank fills a part of an array, all ranks sum their parts.

Build mpi4py against this installation once: MPICC=PREFIX/bin/mpicc pip install --no-binary=mpi4py mpi4py

    mpirun -n 4 python3 mpi4py_sum.py
"""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

part = array("d", (rank * 1000 + i for i in range(1000)))
total = array("d", [0.0] * len(part))
world.Allreduce(part, total, op=MPI.SUM)

if rank == 0:
    expected = [sum(r * 1000 + i for r in range(size)) for i in range(1000)]
    assert list(total) == expected
    print(f"{size} ranks agree: the sum of the first elements is {total[0]:.0f}")
