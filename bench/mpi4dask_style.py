"""One-way latency of 1 byte with MPI4Dask's coroutine (arXiv 2101.08878, section
4): mpi4py's Isend and Irecv, with Test between asyncio.sleep(0). Prints
microseconds, the median of seven rounds, on rank 0."""

import asyncio
import statistics
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
assert comm.size == 2, "the launcher belongs to another MPI than mpi4py's library"
peer = 1 - comm.rank
out, into = bytearray(1), bytearray(1)


async def finish(request):
    while not request.Test():
        await asyncio.sleep(0)


async def turn():
    if comm.rank == 0:
        await finish(comm.Isend([out, MPI.BYTE], dest=peer, tag=1))
        await finish(comm.Irecv([into, MPI.BYTE], source=peer, tag=1))
    else:
        await finish(comm.Irecv([into, MPI.BYTE], source=peer, tag=1))
        await finish(comm.Isend([out, MPI.BYTE], dest=peer, tag=1))


async def main(iterations=5000):
    rounds = []
    for _ in range(7):
        comm.Barrier()
        for _ in range(iterations // 10):
            await turn()
        start = time.perf_counter()
        for _ in range(iterations):
            await turn()
        rounds.append((time.perf_counter() - start) / iterations / 2 * 1e6)
    if comm.rank == 0:
        print(statistics.median(rounds))


asyncio.run(main())
