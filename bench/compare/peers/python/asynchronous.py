"""The measurements of peers whose sends and receives are coroutines."""

import asyncio
import struct

import numpy as np
from common import clock


class Asynchronous:
    """A peer that has out(b, tag) and into(b, tag), coroutines that send and receive."""

    async def send(self, b):
        await self.out(b, 0)

    async def recv(self, b):
        await self.into(b, 0)

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)

    async def latency(self, out, into, n, trips, tag=0, starts=None):
        starts = self.first if starts is None else starts
        if not starts:
            for _ in range(n):
                await self.into(into, tag)
                await self.out(out, tag)
        elif trips is None:
            for _ in range(n):
                await self.out(out, tag)
                await self.into(into, tag)
        else:
            for _ in range(n):
                start = clock()
                await self.out(out, tag)
                await self.into(into, tag)
                trips.append(clock() - start)

    async def throughput(self, out, into, window, n, trips):
        answer = np.zeros(8, "u1")
        for _ in range(n):
            start = clock()
            if self.first:
                await asyncio.gather(*[self.out(out, 0) for _ in range(window)])
                await self.into(answer, 0)
            else:
                await asyncio.gather(*[self.into(into, 0) for _ in range(window)])
                await self.out(answer, 0)
            if trips is not None:
                trips.append(clock() - start)

    async def message_out(self, frames):
        """The lengths, then one frame after the other, as the backends of Dask do it."""
        lengths = struct.pack(f"<{len(frames)}q", *[len(f) for f in frames])
        await self.out(np.frombuffer(bytearray(lengths), "u1"), 0)
        for f in frames:
            await self.out(f, 0)

    async def message_in(self, sizes, intos=None):
        lengths = np.zeros(8 * len(sizes), "u1")
        await self.into(lengths, 0)
        intos = intos or [np.empty(n, "u1") for n in lengths.view("<i8")]
        for into in intos:
            await self.into(into, 0)
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
        """Half of the conversations start on either side."""
        await asyncio.gather(*[self.latency(outs[i], intos[i], n, None, i, (i % 2 == 0) == self.first) for i in range(len(outs))])
