"""An event loop of Python in each rank: coroutines exchange bytes over a pipe and a socket pair,
sleep, call a thread, and wait for a signal. The loop wakes itself over a socket pair of its own.

  event_loop.py ROUNDS [GATE]      until GATE exists, if it is given
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys

mpi = ctypes.CDLL("libmpi_abi.so.1")
WORLD = ctypes.c_void_p(0x101)
INT64 = ctypes.c_void_p(0x258)
SUM = ctypes.c_void_p(0x21)


def total(value):
    mine, result = ctypes.c_int64(value), ctypes.c_int64(0)
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(result), 1, INT64, SUM, WORLD)
    return result.value


async def echo(reader, writer):
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()


async def pipe_streams():
    loop = asyncio.get_running_loop()
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(read, "rb"))
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(write, "wb")
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def main(rank, rounds, gate):
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    task = asyncio.create_task(echo(*await asyncio.open_connection(sock=far)))
    from_pipe, to_pipe = await pipe_streams()
    heard = asyncio.Queue()
    loop.add_signal_handler(signal.SIGUSR1, heard.put_nowait, None)
    number = 0
    while True:
        data = bytes((number * 7 + rank + at) % 251 for at in range(1 + number * 131 % 3000))
        writer.write(data)
        to_pipe.write(data)
        await asyncio.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(heard.get(), 20)
        assert await asyncio.wait_for(reader.readexactly(len(data)), 20) == data
        assert await asyncio.wait_for(from_pipe.readexactly(len(data)), 20) == data
        squares = await loop.run_in_executor(None, lambda: sum(n * n for n in range(number % 100)))
        result = total(sum(data) + squares)
        if number < rounds and number % 10 == 0:
            print(f"round {number}: {result}", flush=True)
        number += 1
        waits = number < rounds or (gate is not None and not os.path.exists(gate))
        if total(waits) == 0:
            break
    task.cancel()
    print(f"rank {rank} is through", flush=True)


mpi.MPI_Init(None, None)
place = ctypes.c_int()
mpi.MPI_Comm_rank(WORLD, ctypes.byref(place))
asyncio.run(main(place.value, int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
mpi.MPI_Finalize()
