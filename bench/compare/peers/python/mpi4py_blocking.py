"""mpi4py as its tutorial recommends it for speed: Send and Recv of buffers that
block, Isend, Irecv and Waitall for a window. It has no coroutines: one conversation."""

import asyncio
import sys
import time

import mpi4py
import numpy as np
from common import clock, measure

mpi4py.rc.thread_level = "single"
from mpi4py import MPI  # noqa: E402 after the setting

TAG = 100


class Peer:
    def __init__(self):
        self.comm = MPI.COMM_WORLD
        if self.comm.size != 2:
            sys.exit("mpi4py_blocking: start it on 2 ranks with the mpirun of its MPI")
        self.first, self.other = self.comm.rank == 0, 1 - self.comm.rank
        self.environment = {"mpi": MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0"), "mpi4py": mpi4py.__version__}

    async def send(self, b):
        self.comm.Send([b, MPI.BYTE], self.other, TAG)

    async def recv(self, b):
        self.comm.Recv([b, MPI.BYTE], self.other, TAG)

    async def sleep(self, seconds):
        time.sleep(seconds)

    async def latency(self, out, into, n, trips):
        send, recv, other = self.comm.Send, self.comm.Recv, self.other
        out, into = [out, MPI.BYTE], [into, MPI.BYTE]
        if not self.first:
            for _ in range(n):
                recv(into, other, TAG)
                send(out, other, TAG)
        elif trips is None:
            for _ in range(n):
                send(out, other, TAG)
                recv(into, other, TAG)
        else:
            for _ in range(n):
                start = clock()
                send(out, other, TAG)
                recv(into, other, TAG)
                trips.append(clock() - start)

    async def throughput(self, out, into, window, n, trips):
        comm, other, answer = self.comm, self.other, bytearray(8)
        out, into = [out, MPI.BYTE], [into, MPI.BYTE]
        for _ in range(n):
            start = clock()
            if self.first:
                MPI.Request.Waitall([comm.Isend(out, other, TAG) for _ in range(window)])
                comm.Recv([answer, MPI.BYTE], other, TAG)
            else:
                MPI.Request.Waitall([comm.Irecv(into, other, TAG) for _ in range(window)])
                comm.Send([answer, MPI.BYTE], other, TAG)
            if trips is not None:
                trips.append(clock() - start)

    async def message_out(self, frames):
        self.comm.Send(np.array([len(f) for f in frames], "i8"), self.other, TAG)
        for f in frames:
            self.comm.Send([f, MPI.BYTE], self.other, TAG)

    async def message_in(self, sizes, intos=None):
        lengths = np.zeros(len(sizes), "i8")
        self.comm.Recv(lengths, self.other, TAG)
        intos = intos or [np.empty(n, "u1") for n in lengths]
        for into in intos:
            self.comm.Recv([into, MPI.BYTE], self.other, TAG)
        return intos

    async def message(self, outs, intos, n, trips):
        sizes = [len(b) for b in intos]
        for _ in range(n):
            start = clock()
            if self.first:
                await self.message_out(outs)
            await self.message_in(sizes, intos)
            if not self.first:
                await self.message_out(outs)
            if trips is not None:
                trips.append(clock() - start)

    async def rate(self, outs, intos, n):
        if len(outs) > 1:
            sys.exit("mpi4py's blocking calls have one conversation at a time")
        await self.latency(outs[0], intos[0], n, None)


asyncio.run(measure(Peer(), sys.argv[1:]))
