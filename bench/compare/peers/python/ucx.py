"""UCX-Py or UCXX: ucx.py ucp|ucxx blocking|polling address|listener. What comes third
says how the two are connected: by the addresses of their workers, or by a listener
and a socket address."""

import asyncio
import importlib
import os
import sys

import numpy as np
from asynchronous import Asynchronous
from common import directory, measure


class Peer(Asynchronous):
    async def open(self, module, mode, connect):
        rank = int(os.environ["COMPARE_RANK"])
        self.first, self.library = rank == 0, importlib.import_module(module)
        if module == "ucxx":
            self.library.init(progress_mode=mode)
        else:
            self.library.init(blocking_progress_mode=mode == "blocking")
        self.environment = {
            module: self.library.__version__,
            "ucx": ".".join(str(n) for n in self.library.get_ucx_version()),
            "UCX_TLS": os.environ.get("UCX_TLS", "not set"),
            "connected by": connect,
        }
        if connect == "address":
            address = self.library.get_worker_address()
            await directory(f"worker{rank}", bytes(memoryview(address)))
            theirs = self.library.get_ucx_address_from_buffer(await directory(f"worker{1 - rank}"))
            self.endpoint = await self.library.create_endpoint_from_worker_address(theirs)
        elif self.first:
            accepted = asyncio.get_running_loop().create_future()

            async def accept(endpoint):
                accepted.set_result(endpoint)

            self.listener = self.library.create_listener(accept)
            await directory("port", str(self.listener.port).encode())
            self.endpoint = await accepted
        else:
            self.endpoint = await self.library.create_endpoint("127.0.0.1", int(await directory("port")))

    async def out(self, b, tag):
        await self.endpoint.send(b, tag=100 + tag, force_tag=True)

    async def into(self, b, tag):
        await self.endpoint.recv(b, tag=100 + tag, force_tag=True)

    async def end(self):
        """Neither side leaves before the other has received everything."""
        await self.send(np.zeros(1, "u1"))
        await self.recv(np.zeros(1, "u1"))


async def main(module, mode, connect, *items):
    peer = Peer()
    await peer.open(module, mode, connect)
    await measure(peer, items)
    await peer.end()


asyncio.run(main(*sys.argv[1:]))
os._exit(0)  # what the libraries do at their end is not measured, and may wait for the peer
