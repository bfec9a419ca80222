"""What the peers of bench/compare that are written in Python have in common: the
order of the measurements, and the lines of JSON. The README of the folder above says
which arguments and variables they take.

A peer gives measure() an object with these, of which those with a message are
coroutines:

    first                 whether this process measures and prints
    environment           a dictionary for the reader of the figures
    send(b), recv(b)      a message of the control traffic, of a length that both know
    latency(out, into, n, trips)                n ping-pongs
    message(out, into, n, trips)                n of messages of many frames (lists)
    throughput(out, into, window, n, trips)     n windows, each answered by 8 bytes
    rate(outs, intos, n)  n ping-pongs of each of many conversations at the same time
    sleep(seconds)

Each has its loop in its own form, so that nothing of this file is timed. trips is
None, or a list that takes the seconds of each turn.
"""

import asyncio
import json
import os
import resource
import struct
import sys
import time

import numpy as np

SEEDS, BURST, SINGLES = 251, 200, 20000
END, VERIFY = 0, -1

clock = time.perf_counter


def contents(size, seed, pattern=[np.zeros(0, "u1")]):
    """What a message of a seed has in it."""
    if len(pattern[0]) < size + SEEDS:
        j = np.arange(size + SEEDS, dtype="i8")
        pattern[0] = ((j * 131 + (j >> 8) * 29 + 17) & 255).astype("u1")
    seed %= SEEDS
    return pattern[0][seed : seed + size]


def check(buffer, seed):
    if not np.array_equal(buffer, contents(len(buffer), seed)):
        raise ValueError(f"verification: a message of {len(buffer)} bytes is not what was sent")


def status_bytes(name):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    return status_bytes("VmRSS:")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def line(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def directory(name, mine=None):
    """Publishes bytes for the other process, or waits for what that has published."""
    path = os.path.join(os.environ["COMPARE_DIR"], name)
    if mine is not None:
        with open(path + ".new", "wb") as f:
            f.write(mine)
        os.rename(path + ".new", path)
        return mine
    while not os.path.exists(path):
        await asyncio.sleep(0.001)
    with open(path, "rb") as f:
        return f.read()


class Driver:
    def __init__(self, peer):
        self.peer, self.verified = peer, 0
        self.seconds = float(os.environ["COMPARE_MS"]) / 1e3
        self.wait_seconds = float(os.environ["COMPARE_WAIT_MS"]) / 1e3

    async def order(self, n):
        await self.peer.send(np.frombuffer(bytearray(struct.pack("<q", n)), "u1"))

    async def ordered(self):
        b = np.zeros(8, "u1")
        await self.peer.recv(b)
        return struct.unpack("<q", b.tobytes())[0]

    async def tell(self, a, b):
        await self.peer.send(np.frombuffer(bytearray(struct.pack("<dd", a, b)), "u1"))

    async def told(self):
        b = np.zeros(16, "u1")
        await self.peer.recv(b)
        return struct.unpack("<dd", b.tobytes())

    async def measure(self, text):
        fields = text.split(":")
        kind, (size, frames, n) = fields[0], [int(f) for f in fields[1:]] + [1] * (4 - len(fields))
        result = dict(kind=kind, size=size, frames=frames, n=n)
        if kind in ("wait", "idle"):
            await self.waiting(kind, result)
        elif kind == "memory":
            await self.memory(size, frames, result)
        else:
            await self.timed(kind, size, frames, n, result)
        if self.peer.first:
            line(**result)

    async def timed(self, kind, size, frames, n, result):
        p = self.peer
        buffers = n if kind == "rate" else frames
        outs, intos = ([np.zeros(size, "u1") for _ in range(buffers)] for _ in range(2))
        runs = {
            "latency": lambda count, trips=None: p.latency(outs[0], intos[0], count, trips),
            "multi": lambda count, trips=None: p.message(outs, intos, count, trips),
            "throughput": lambda count, trips=None: p.throughput(outs[0], intos[0], n, count, trips),
            "rate": lambda count, trips=None: p.rate(outs, intos, count),
        }
        run = runs[kind]

        async def verify():
            self.verified += 1
            mine, theirs = 2 * self.verified + (not p.first), 2 * self.verified + p.first
            for f in range(buffers):
                outs[f][:] = contents(size, mine + f)
                intos[f][:] = 0
            await run(1)
            if kind == "throughput" and p.first:
                return
            for f in range(buffers):
                check(intos[f], theirs + f)

        if not p.first:
            while (count := await self.ordered()) != END:
                await (verify() if count == VERIFY else run(count))
            return

        async def timed_run(count):
            await self.order(count)
            start = clock()
            await run(count)
            return clock() - start

        await self.order(VERIFY)
        await verify()
        count = 1
        while (took := await timed_run(count)) < self.seconds / 8:  # the warm-up
            count *= 2
        count = max(2, int(count * (self.seconds / 2) / took))
        took = await timed_run(count)
        messages = {"throughput": n, "rate": 2 * n}.get(kind, 2)
        result.update(iterations=count, us=took / count / messages * 1e6)
        if kind != "rate":
            trips = []
            await self.order(min(count, SINGLES))
            await run(min(count, SINGLES), trips)
            trips.sort()
            for name, at in (("p50_us", len(trips) // 2), ("p99_us", len(trips) * 99 // 100)):
                result[name] = trips[at] / messages * 1e6
        await self.order(VERIFY)
        await verify()
        await self.order(END)

    async def waiting(self, kind, result):
        p = self.peer
        await p.latency(np.zeros(1, "u1"), np.zeros(1, "u1"), BURST, None)
        if p.first:
            await p.sleep(self.wait_seconds)
            if kind == "wait":
                await self.tell(time.monotonic_ns(), 0)
            result["cpu_percent"], result["wakeup_us"] = await self.told()
            return
        start, used, wakeup = clock(), cpu_seconds(), 0
        if kind == "wait":
            sent, _ = await self.told()
            wakeup = (time.monotonic_ns() - sent) / 1e3
        else:
            await p.sleep(self.wait_seconds)
        await self.tell(100 * (cpu_seconds() - used) / (clock() - start), wakeup)

    async def memory(self, size, frames, result):
        """One message: what it is sent from is there before, what it is received into is not."""
        p = self.peer
        if p.first:
            outs = [contents(size, f).copy() for f in range(frames)]
            await self.ordered()
            before = reset_peak()
            await p.message_out(outs)
            result["sender_bytes"] = status_bytes("VmHWM:") - before
            result["rss_bytes"], result["receiver_bytes"] = await self.told()
            return
        await self.order(0)  # so that connecting is over
        before = reset_peak()
        intos = await p.message_in([size] * frames)
        peak = status_bytes("VmHWM:")
        for f in range(frames):
            check(np.frombuffer(intos[f], "u1"), f)
        await self.tell(before, peak - before)


async def measure(peer, items):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection for each conversation
    if peer.first:
        line(kind="environment", environment=dict(peer.environment, python=sys.version.split()[0]))
    driver = Driver(peer)
    for text in items:
        await driver.measure(text)
