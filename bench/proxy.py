"""How fast a route changes, what a change costs clients, and what a hop costs: ours beside Envoy configured by hand.

`python -m bench.proxy` prints a table and one JSON document. Both sides run at the same time on this machine and take
turns, with the same backends, which are Envoys that say one word. A switch is timed from the call (ours) or from the
first byte written (by hand) until a client that asks all the time hears the new backend.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bench import bare_envoy
from bench.bare_envoy import BareEnvoy
from bench.figures import Figure, document, table
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy.envoy.proxy import Envoy
from holdfast.model.certificate import Constraints
from holdfast.ports.proxy import Backend, Listening, ProxyRoute, Servable
from holdfast.trust.servable import servable

ADDRESS = "127.83.0.1"
OURS, BARE, BACKENDS = 28443, 28444, (28501, 28502)
WORDS = ("one", "two")
ZONE = "internal.test"
NAME = f"s0.{ZONE}"
SIZES = (10, 100, 1000, 2000)
UPDATE_S_MAX = 1.0
SWITCH_RATIO_MAX = 10.0  # a set is two files and their acknowledgement, by hand it is one file and hope
THROUGHPUT_MIN = 0.9
WAIT_S = 60.0


@dataclass(frozen=True)
class Effort:
    sizes: tuple[int, ...]  # numbers of routes
    rounds: int  # switches that are timed, of each size
    requests: int  # under load
    flips: int  # switches under load
    hop_rounds: int


FULL = Effort(SIZES, rounds=20, requests=40_000, flips=20, hop_rounds=5)
QUICK = Effort((10, 100), rounds=6, requests=20_000, flips=20, hop_rounds=2)
SMALLEST = Effort((2,), rounds=1, requests=1_000, flips=2, hop_rounds=1)


def ask(port: int, heard: Connection) -> None:
    """Asks all the time on one connection, in a process of its own, and tells of every word that is not the last one.
    Ends with the other side of the pipe."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    asked, last = f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode(), ""
    with socket.create_connection((ADDRESS, port), WAIT_S) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname=NAME) as line:
            while not heard.poll():
                line.sendall(asked)
                answer = line.recv(4096)
                while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
                    answer += line.recv(4096)
                word = answer.rpartition(b"\r\n")[2].decode() if answer.startswith(b"HTTP/1.1 200") else "failed"
                if word != last:
                    heard.send((word, time.monotonic()))
                    last = word


class Listener:
    """When a client first heard a word. Its clock is ours: it is the machine's."""

    def __init__(self, port: int) -> None:
        self._heard, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=ask, args=(port, theirs), daemon=True)
        self._process.start()
        self.hear(WORDS[0])

    def hear(self, word: str) -> float:
        while self._heard.poll(WAIT_S):
            found, at_s = self._heard.recv()
            if found == "failed":
                raise SystemExit("a request was not answered")
            if found == word:
                return float(at_s)
        raise SystemExit(f"{word!r} was never heard")

    def end(self) -> None:
        self._heard.send("over")
        self._process.join(WAIT_S)


@contextmanager
def backends(folder: str) -> Iterator[None]:
    with ExitStack() as kept:
        for word, port in zip(WORDS, BACKENDS, strict=True):
            place = os.path.join(folder, word)
            listener = bare_envoy.listener(ADDRESS, port, place, None)
            kept.enter_context(BareEnvoy(place, [listener], [], bare_envoy.saying(word)))
        for port in BACKENDS:
            bare_envoy.until_open(ADDRESS, port)
        yield


class Ours:
    def __init__(self, folder: str, size: int, certificates: Sequence[Servable]) -> None:
        self.folder = folder
        self.proxy = Envoy(os.path.join(folder, "ours"), os.path.join(folder, "run"), SystemClock(), ports={443: OURS})
        self._shown = {one.digest: one for one in certificates}
        self._routes = [self._route(number, 0, certificates[number % len(certificates)]) for number in range(size)]

    @staticmethod
    def _route(number: int, side: int, shown: Servable) -> ProxyRoute:
        to = (Backend(ADDRESS, BACKENDS[side]),)
        return ProxyRoute(
            f"s{number}", "app", "main", "l7", (f"s{number}.{ZONE}",), False, to, certificate=shown.digest
        )

    async def begin(self) -> None:
        await self.proxy.follow(Listening(ADDRESS))
        await self.proxy.apply(self._routes, self._shown)

    async def flip(self, side: int) -> None:
        self._routes[0] = self._route(0, side, self._shown[self._routes[0].certificate])
        await self.proxy.apply(self._routes, self._shown)

    async def add(self) -> None:
        self._routes.append(self._route(len(self._routes), 0, next(iter(self._shown.values()))))
        await self.proxy.apply(self._routes, self._shown)

    async def drain(self, side: int) -> None:
        await self.proxy.drained([Backend(ADDRESS, BACKENDS[side])], 10.0)


class ByHand:
    def __init__(self, folder: str, size: int, shown: Servable) -> None:
        files = {"chain": os.path.join(folder, "bare.chain.pem"), "key": os.path.join(folder, "bare.key.pem")}
        for path, content in zip(files.values(), (shown.chain, shown.private), strict=True):
            with open(path, "wb") as file:
                file.write(content)
        place = os.path.join(folder, "bare")
        self._names = [f"s{number}.{ZONE}" for number in range(size)]
        clusters = [
            bare_envoy.cluster(f"{name}-{side}", ADDRESS, BACKENDS[side]) for name in self._names for side in (0, 1)
        ]
        self.envoy = BareEnvoy(place, [bare_envoy.listener(ADDRESS, BARE, place, files)], clusters, self._table(0))

    def _table(self, side: int) -> dict[str, object]:
        sides = [side, *[0] * (len(self._names) - 1)]
        return bare_envoy.table(
            [bare_envoy.host(name, f"{name}-{at}") for name, at in zip(self._names, sides, strict=True)]
        )

    def flip(self, side: int) -> None:
        self.envoy.put("routes", [self._table(side)])


async def switches(ours: Ours, by_hand: ByHand, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds until heard: ours, and by hand; and until ours is acknowledged and durable."""
    listeners = Listener(OURS), Listener(BARE)
    heard, bare, acknowledged = [], [], []
    try:
        for number in range(1, rounds + 1):
            side = number % 2
            began_s = time.monotonic()
            await ours.flip(side)
            acknowledged.append((time.monotonic() - began_s) * 1e3)
            heard.append((listeners[0].hear(WORDS[side]) - began_s) * 1e3)
            await ours.drain(1 - side)
            began_s = time.monotonic()
            by_hand.flip(side)
            bare.append((listeners[1].hear(WORDS[side]) - began_s) * 1e3)
    finally:
        for one in listeners:
            one.end()
    return heard, bare, acknowledged


def load(port: int, requests: int, *more: str) -> tuple[float, int, int]:
    """Requests per second, how many were answered well, and how many were asked: h2load's own count."""
    command = ["h2load", "--requests", str(requests), "--clients", "16", "--threads", "1", *more]
    command += [f"--connect-to={ADDRESS}:{port}", f"https://{NAME}:{port}/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    rate = re.search(r"([\d.]+) req/s", done.stdout)
    counted = re.search(r"requests: (\d+) total.* (\d+) succeeded", done.stdout)
    well = re.search(r"status codes: (\d+) 2xx", done.stdout)
    if not (rate and counted and well):
        raise SystemExit(done.stdout + done.stderr)
    return float(rate[1]), min(int(counted[2]), int(well[1])), int(counted[1])


async def under_load(ours: Ours, flips: int, requests: int) -> tuple[float, int, int]:
    running = asyncio.ensure_future(asyncio.to_thread(load, OURS, requests))
    for number in range(flips):
        await ours.flip(number % 2)
        await ours.drain(1 - number % 2)
    return await running


def measure(effort: Effort) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="hf-") as folder, backends(folder):
        keeper = X509Certificates(folder, PosixDisk())
        keeper.issuer("bench", Constraints((ZONE,)), time.time())
        for size in effort.sizes:
            yield from _of_size(folder, size, keeper, effort)


def _of_size(folder: str, size: int, keeper: X509Certificates, effort: Effort) -> Iterator[Figure]:
    now_s = time.time()
    issued = keeper.issue((NAME,), now_s)
    shown = servable(keeper.chain(issued.chain, issued.private), issued.chain, issued.private, (NAME,), now_s)
    place = os.path.join(folder, str(size))
    os.mkdir(place)
    ours, by_hand = Ours(place, size, [shown]), ByHand(place, size, shown)
    with by_hand.envoy, asyncio.Runner() as runner:
        try:
            began = time.perf_counter()
            runner.run(ours.begin())
            first_ms = (time.perf_counter() - began) * 1e3
            bare_envoy.until_open(ADDRESS, BARE)
            heard, bare, acknowledged = runner.run(switches(ours, by_hand, effort.rounds))
            note = (
                f"p50 of {effort.rounds}; all in force and on the disk after {statistics.median(acknowledged):.0f} ms"
            )
            name = f"switch of 1 of {size:,} routes, heard"
            yield Figure(name, "ms", statistics.median(heard), statistics.median(bare), SWITCH_RATIO_MAX, note=note)
            began = time.perf_counter()
            runner.run(ours.add())
            took_s = time.perf_counter() - began
            whole = f"all of them at first: {first_ms:.0f} ms"
            yield Figure(f"one more beside {size:,} routes", "s", took_s, target=UPDATE_S_MAX, note=whole)
            if size == effort.sizes[0]:
                yield from _hops(runner, ours, by_hand, effort)
        finally:
            runner.run(ours.proxy.follow(None))


def _hops(runner: asyncio.Runner, ours: Ours, by_hand: ByHand, effort: Effort) -> Iterator[Figure]:
    rate, well, asked = runner.run(under_load(ours, effort.flips, effort.requests))
    note = f"{asked:,} requests at {rate:,.0f}/s, {effort.flips} switches"
    yield Figure("requests that failed under load", "", float(asked - well), target=0.0, note=note)
    pids = {OURS: _pid(ours), BARE: by_hand.envoy.pid}
    for protocol, more in (("HTTP/1.1", ("--h1",)), ("HTTP/2", ("--max-concurrent-streams", "4"))):
        cost: dict[int, list[float]] = {OURS: [], BARE: []}
        rates: dict[int, list[float]] = {OURS: [], BARE: []}
        for _ in range(effort.hop_rounds):
            for port, pid in pids.items():
                before_us = cpu_us(pid)
                rate, well, asked = load(port, max(effort.requests // 4, 1000), *more)
                assert well == asked, f"{asked - well} of {asked} requests failed on port {port}"
                cost[port].append((cpu_us(pid) - before_us) / asked)
                rates[port].append(rate)
        note = f"least of {effort.hop_rounds}; {max(rates[OURS]):,.0f} : {max(rates[BARE]):,.0f} requests/s"
        name = f"one hop, {protocol} over TLS"
        yield Figure(name, "µs CPU", min(cost[OURS]), min(cost[BARE]), 1 / THROUGHPUT_MIN, note=note)


def _pid(ours: Ours) -> int:
    with open(os.path.join(ours.folder, "ours", "envoy.pid"), encoding="ascii") as file:
        return int(file.read().split()[0])


def cpu_us(pid: int) -> float:
    """Processor time of a process so far: what a busy machine disturbs least."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 100 routes, fewer rounds")
    args = parser.parse_args()
    found = []
    for figure in measure(QUICK if args.quick else FULL):
        sys.stderr.write(f"{figure.name}: {figure.ours:.3g} {figure.unit} {figure.note}\n")
        found.append(figure)
    print(table(found))
    print(json.dumps({"load": os.getloadavg()[0], "figures": document(found)}, ensure_ascii=False))
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
