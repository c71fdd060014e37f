"""An event loop of Python in each rank: it waits in an epoll set for a pipe, a socket pair, the
socket pair by which signals wake it, and a thread that answers over a pipe of its own.

  event_loop.py ROUNDS [GATE]      until GATE exists, if it is given

Not asyncio: up to Python 3.13 it compares the number of its process with that at its start.
"""

import ctypes
import os
import queue
import selectors
import signal
import socket
import sys
import threading

mpi = ctypes.CDLL("libmpi_abi.so.1")
WORLD = ctypes.c_void_p(0x101)
INT64 = ctypes.c_void_p(0x258)
SUM = ctypes.c_void_p(0x21)


def total(value):
    mine, result = ctypes.c_int64(value), ctypes.c_int64(0)
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(result), 1, INT64, SUM, WORLD)
    return result.value


def answer(tasks, pipe):
    while True:
        number = tasks.get()
        os.write(pipe, sum(n * n for n in range(number % 100)).to_bytes(8, "little"))


class Loop:
    def __init__(self):
        self.selector = selectors.EpollSelector()
        self.near, self.far = socket.socketpair()
        self.out, self.into = os.pipe()
        self.signals, wakeup = socket.socketpair()
        self.answers, answers = os.pipe()
        self.tasks = queue.Queue()
        for end in [self.near, self.far, self.signals, wakeup]:
            end.setblocking(False)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.set_wakeup_fd(wakeup.fileno())
        self.wakeup = wakeup
        threading.Thread(target=answer, args=(self.tasks, answers), daemon=True).start()
        self.got = {}
        for name in ["near", "far", "out", "signals", "answers"]:
            self.selector.register(getattr(self, name), selectors.EVENT_READ, name)
            self.got[name] = b""

    def until(self, wanted):
        """Reads until all of this has come, and nothing else."""
        while self.got != wanted:
            ready = self.selector.select(20)
            assert ready, (self.got, wanted)
            for key, _ in ready:
                data = os.read(key.fd, 100_000)
                self.got[key.data] += data
                if key.data == "far":
                    self.far.sendall(data)
        self.got = dict.fromkeys(self.got, b"")


def main():
    mpi.MPI_Init(None, None)
    place = ctypes.c_int()
    mpi.MPI_Comm_rank(WORLD, ctypes.byref(place))
    rank, rounds = place.value, int(sys.argv[1])
    gate = sys.argv[2] if len(sys.argv) > 2 else None
    loop, number = Loop(), 0
    while True:
        data = bytes((number * 7 + rank + at) % 251 for at in range(1 + number * 131 % 3000))
        loop.near.sendall(data)
        os.write(loop.into, data)
        loop.tasks.put(number)
        signal.raise_signal(signal.SIGUSR1)
        squares = sum(n * n for n in range(number % 100))
        loop.until(
            {
                "near": data,
                "far": data,
                "out": data,
                "signals": bytes([signal.SIGUSR1]),
                "answers": squares.to_bytes(8, "little"),
            }
        )
        result = total(sum(data) + squares)
        if number < rounds and number % 10 == 0:
            print(f"round {number}: {result}", flush=True)
        number += 1
        waits = number < rounds or (gate is not None and not os.path.exists(gate))
        if total(waits) == 0:
            break
    print(f"rank {rank} is through", flush=True)
    mpi.MPI_Finalize()


main()
