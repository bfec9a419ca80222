"""MPI4Dask's way to send a message (arXiv 2101.08878, section 4): mpi4py's Isend and
Irecv, with Test between asyncio.sleep(0)."""

import asyncio
import sys

import mpi4py
from asynchronous import Asynchronous
from common import measure
from mpi4py import MPI

TAG = 100


class Peer(Asynchronous):
    def __init__(self):
        self.comm = MPI.COMM_WORLD
        if self.comm.size != 2:
            sys.exit("mpi4dask: start it on 2 ranks with the mpirun of its MPI")
        self.first, self.other = self.comm.rank == 0, 1 - self.comm.rank
        self.environment = {"mpi": MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0"), "mpi4py": mpi4py.__version__}

    async def out(self, b, tag):
        request = self.comm.Isend([b, MPI.BYTE], self.other, TAG + tag)
        while not request.Test():
            await asyncio.sleep(0)

    async def into(self, b, tag):
        request = self.comm.Irecv([b, MPI.BYTE], self.other, TAG + tag)
        while not request.Test():
            await asyncio.sleep(0)


asyncio.run(measure(Peer(), sys.argv[1:]))
