"""Locks and a shared value of Python's multiprocessing in each rank, as progress bars and pools have
them.

  locks.py fork|spawn GATE      until GATE exists; with spawn, Python starts a resource tracker
"""

import ctypes
import multiprocessing
import os
import sys
import time
from multiprocessing import resource_tracker

mpi = ctypes.CDLL("libmpi_abi.so.1")
WORLD = ctypes.c_void_p(0x101)
INT64 = ctypes.c_void_p(0x258)
SUM = ctypes.c_void_p(0x21)


def total(value):
    mine, result = ctypes.c_int64(value), ctypes.c_int64(0)
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(result), 1, INT64, SUM, WORLD)
    return result.value


def main():
    # The resource tracker is python3, too.
    ctypes.CDLL(None).prctl(15, b"locks.py", 0, 0, 0)
    mpi.MPI_Init(None, None)
    place = ctypes.c_int()
    mpi.MPI_Comm_rank(WORLD, ctypes.byref(place))
    rank, (way, gate) = place.value, sys.argv[1:]
    processes = multiprocessing.get_context(way)
    lock, free, value = processes.RLock(), processes.Semaphore(3), processes.Value("i", 0)
    tracker = resource_tracker.getfd() if way == "spawn" else None
    # As if images were taken while Python starts its tracker, with both ends of the pipe.
    starts = tracker is not None and rank == 2
    end = os.open(f"/proc/self/fd/{tracker}", os.O_RDONLY) if starts else None
    rounds = 0
    while total(rank == 0 and not os.path.exists(gate)):
        with lock, free:
            value.value += 1
        if tracker is not None:
            # As if each image were taken after Python has looked whether its tracker is there.
            os.write(tracker, b"PROBE:0:noop\n")
        rounds += 1
        assert value.value == rounds, (value.value, rounds)
        if rounds % 100 == 0:
            # Another one is made, and goes.
            processes.Lock()
        time.sleep(0.001)
    if starts:
        os.close(end)
        os.write(tracker, b"PROBE:0:noop\n")
    assert free.acquire(False) and free.acquire(False) and free.acquire(False)
    assert not free.acquire(False)
    print(f"rank {rank} is through", flush=True)
    mpi.MPI_Finalize()


main()
