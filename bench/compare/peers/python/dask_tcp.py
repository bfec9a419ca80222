"""Dask's own communication: distributed.comm over tcp://, with its frames."""

import asyncio
import os
import sys

import numpy as np
from asynchronous import Asynchronous
from common import clock, directory, measure

import distributed
from distributed.comm import connect, listen
from distributed.protocol import to_serialize


class Peer(Asynchronous):
    async def open(self):
        self.first, self.comms = os.environ["COMPARE_RANK"] == "0", []
        self.environment = {"distributed": distributed.__version__, "transport": "tcp://127.0.0.1"}
        if self.first:
            self.accepted = asyncio.Queue()
            held = asyncio.Event()

            async def accept(comm):
                self.accepted.put_nowait(comm)
                await held.wait()  # the comm is closed when its handler ends

            self.listener = await listen("tcp://127.0.0.1:0", accept)
            await directory("address", self.listener.contact_address.encode())
        else:
            self.address = (await directory("address")).decode()
        await self.connected(0)

    async def connected(self, tag):
        """Both sides make the connections in the same order."""
        while len(self.comms) <= tag:
            self.comms.append(await (self.accepted.get() if self.first else connect(self.address)))

    async def out(self, b, tag):
        await self.comms[tag].write([to_serialize(b)])

    async def into(self, b, tag):
        b[:] = self.received(await self.comms[tag].read())[0]

    @staticmethod
    def received(message):
        return [np.frombuffer(getattr(m, "data", m), "u1") for m in message]

    async def latency(self, out, into, n, trips, tag=0, starts=None):
        """What is received stays where Dask has put it; only the last is kept for the check."""
        comm, starts = self.comms[tag], self.first if starts is None else starts
        got = None
        for _ in range(n):
            start = clock()
            if starts:
                await comm.write([to_serialize(out)])
            got = await comm.read()
            if not starts:
                await comm.write([to_serialize(out)])
            if trips is not None:
                trips.append(clock() - start)
        if got is not None:
            into[:] = self.received(got)[0]

    async def throughput(self, out, into, window, n, trips):
        comm, answer, got = self.comms[0], np.zeros(8, "u1"), None
        for _ in range(n):
            start = clock()
            for _ in range(window):
                if self.first:
                    await comm.write([to_serialize(out)])
                else:
                    got = await comm.read()
            if self.first:
                await comm.read()
            else:
                await comm.write([to_serialize(answer)])
            if trips is not None:
                trips.append(clock() - start)
        if got is not None:
            into[:] = self.received(got)[0]

    async def message_out(self, frames):
        await self.comms[0].write([to_serialize(f) for f in frames])

    async def message_in(self, sizes, intos=None):
        return self.received(await self.comms[0].read())

    async def message(self, outs, intos, n, trips):
        got = None
        for _ in range(n):
            start = clock()
            if self.first:
                await self.message_out(outs)
            got = await self.message_in(None)
            if not self.first:
                await self.message_out(outs)
            if trips is not None:
                trips.append(clock() - start)
        for into, received in zip(intos, got or []):
            into[:] = received

    async def rate(self, outs, intos, n):
        await self.connected(len(outs) - 1)
        await super().rate(outs, intos, n)


async def main(items):
    peer = Peer()
    await peer.open()
    await measure(peer, items)
    for comm in peer.comms:
        comm.abort()


asyncio.run(main(sys.argv[1:]))
