"""Clients that ask all the time while something is done to a fleet, and a count of every request that went wrong.

`Visitors` are ours: each request, its time and what became of it are known. `wrk` and `h2load` are everybody's: nobody
has to believe a client that we wrote. All verify nothing but what they are told to; only `Visitors` judge certificates.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.fleets.waiting import PATIENCE_S

REQUEST_S_MAX = 30.0
END_S_MAX = 60.0


@dataclass(frozen=True)
class Tally:
    """`failed` counts by kind and is empty if every request was answered with 2xx."""

    asked: int
    seconds: float
    failed: Mapping[str, int]

    @property
    def rate(self) -> float:
        return self.asked / self.seconds if self.seconds else 0.0


# ---- ours ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    """One request. `trouble` is "" if it was answered with 200; `body` is what was said then."""

    began_s: float  # time.time(), to be laid beside other people's clocks
    took_s: float
    who: str
    trouble: str = ""
    body: str = ""


class _Fixed(AbstractResolver):
    """Every name is at one address: the visitors live outside the fleet and have no DNS of it."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=self._address, port=port, family=socket.AF_INET, proto=0, flags=0),
        ]

    async def close(self) -> None:
        """Holds nothing."""


@dataclass
class Visitors:
    """HTTP/1.1 clients at a steady pace. Those who keep their connection ask again on it, the others dial each time."""

    url: str
    address: str  # where the name of the URL is
    authorities: Path | None = None
    rate: float = 200.0
    keeping: int = 8
    dialling: int = 2
    dialling_rate: float = 10.0
    visits: list[Visit] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _told: threading.Condition = field(default_factory=threading.Condition)
    _began_s: float = 0.0
    _ended_s: float = 0.0

    # ---- what is known of them

    @property
    def failures(self) -> list[Visit]:
        return [visit for visit in list(self.visits) if visit.trouble]

    @property
    def tally(self) -> Tally:
        failed: dict[str, int] = {}
        for visit in self.failures:
            failed[visit.trouble] = failed.get(visit.trouble, 0) + 1
        return Tally(len(self.visits), (self._ended_s or time.time()) - self._began_s, failed)

    def await_visits(self, more: int, patience_s: float = PATIENCE_S) -> None:
        """Until so many more requests are over, well or not."""
        wanted = len(self.visits) + more
        with self._told:
            assert self._told.wait_for(lambda: len(self.visits) >= wanted, patience_s), "the visitors are stuck"

    def await_answer(self, text: str, patience_s: float = PATIENCE_S) -> Visit:
        """Until somebody is told this, in an answer to a question asked from now on."""
        now_s, seen = time.time(), len(self.visits)
        found: list[Visit] = []

        def told() -> bool:
            nonlocal seen
            fresh = self.visits[seen:]
            seen += len(fresh)
            found.extend(visit for visit in fresh if visit.began_s >= now_s and text in visit.body)
            return bool(found)

        with self._told:
            assert self._told.wait_for(told, patience_s), f"nobody was told {text!r}: {self.tally}"
        return found[0]

    # ---- their life

    @contextmanager
    def at_work(self) -> Iterator[Visitors]:
        thread = threading.Thread(target=lambda: asyncio.run(self._visit()), daemon=True)
        self._began_s = time.time()
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(REQUEST_S_MAX + END_S_MAX)
            self._ended_s = time.time()
        assert not thread.is_alive(), "the visitors did not go home"

    async def _visit(self) -> None:
        context = trusting(self.authorities) if self.authorities else None
        kept = [self._client(f"keeping {n}", context, self.keeping / self.rate) for n in range(self.keeping)]
        dialled = [
            self._client(f"dialling {n}", context, self.dialling / self.dialling_rate, dials=True)
            for n in range(self.dialling)
        ]
        await asyncio.gather(*kept, *dialled)

    async def _client(self, who: str, tls: ssl.SSLContext | None, period_s: float, dials: bool = False) -> None:
        link = aiohttp.TCPConnector(
            ssl=tls if tls is not None else True, resolver=_Fixed(self.address), force_close=dials, limit=1
        )
        patience = aiohttp.ClientTimeout(total=REQUEST_S_MAX)
        async with aiohttp.ClientSession(connector=link, timeout=patience) as session:
            session._retry_connection = False  # a request that a closed connection swallowed is a lost one, not retried
            due_s = time.monotonic()
            while not self._over.is_set():
                self._note(await _ask(session, self.url, who))
                due_s = max(due_s + period_s, time.monotonic() - period_s)
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    def _note(self, visit: Visit) -> None:
        with self._told:
            self.visits.append(visit)
            self._told.notify_all()


def trusting(authorities: Path) -> ssl.SSLContext:
    """Whom these vouch for, and nobody else; an authority need not be a root, as for curl."""
    context = ssl.create_default_context(cafile=str(authorities))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _ask(session: aiohttp.ClientSession, url: str, who: str) -> Visit:
    began_s, began = time.time(), time.monotonic()

    def visit(trouble: str = "", body: str = "") -> Visit:
        return Visit(began_s, time.monotonic() - began, who, trouble, body)

    try:
        async with session.get(url, allow_redirects=False) as reply:
            body = await reply.text()
            return visit(body=body) if reply.status == 200 else visit(f"status {reply.status}", body)
    except TimeoutError:
        return visit("timeout")
    except (aiohttp.ClientError, OSError) as trouble:
        return visit(f"{type(trouble).__name__}: {trouble}"[:200])


# ---- everybody's -----------------------------------------------------------------------------------------------------


@dataclass
class Wrk:
    """wrk, HTTP/1.1, held back to a rate by a pause before each request. It ends when it is told to."""

    url: str
    address: str
    room: Path  # for its script and its table of hosts
    rate: float = 200.0
    connections: int = 16
    tally: Tally | None = None

    @contextmanager
    def at_work(self) -> Iterator[Wrk]:
        process = subprocess.Popen(
            self._words(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            time.sleep(0.2)  # it says nothing when it begins
            assert process.poll() is None, process.communicate()[0]
            yield self
        finally:
            process.send_signal(signal.SIGINT)  # ends it with its count
            try:
                said = process.communicate(timeout=END_S_MAX)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                said = process.communicate()[0]
        self.tally = counted_by_wrk(said)

    def _words(self) -> list[str]:
        """In a mount namespace of its own with its own table of hosts: wrk finds names in no other way."""
        self.room.mkdir(parents=True, exist_ok=True)
        script, hosts = self.room / "pause.lua", self.room / "hosts"
        pause_ms = max(1, round(1000 * self.connections / self.rate))
        # Of different lengths, so that the connections do not ask all at once.
        script.write_text(f"function delay() return math.random(1, {2 * pause_ms - 1}) end\n")
        hosts.write_text(f"127.0.0.1 localhost\n{self.address} {urlsplit(self.url).hostname}\n")
        wrk = f"exec wrk --threads 1 --connections {self.connections} --duration 3600s --timeout {REQUEST_S_MAX:.0f}s"
        shell = f'mount --bind "$1" /etc/hosts && {wrk} --script "$2" "$3"'
        return ["unshare", "--mount", "sh", "-c", shell, "sh", str(hosts), str(script), self.url]


def counted_by_wrk(said: str) -> Tally:
    total = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m|h)\b", said)
    assert total is not None, said
    failed: dict[str, int] = {}
    if errors := re.search(r"Socket errors: (.+)", said):
        failed |= {f"socket {kind}": int(n) for kind, n in re.findall(r"(\w+) (\d+)", errors[1])}
    if bad := re.search(r"Non-2xx or 3xx responses: (\d+)", said):
        failed["status"] = int(bad[1])
    seconds = float(total[2]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[total[3]]
    return Tally(int(total[1]), seconds, {kind: n for kind, n in failed.items() if n})


def h2load(
    url: str, address: str, requests: int, *, rate: float = 0.0, clients: int = 4, streams: int = 4, http1: bool = False
) -> Tally:
    """So many requests over HTTP/2, at a rate or as fast as it goes; a connection that breaks takes its share along.

    Not for a time: then h2load counts neither a broken connection nor what was still to be asked on it.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    words = ["h2load", f"--connect-to={address}:{port}", f"--requests={requests}", f"--clients={clients}"]
    words += [f"--max-concurrent-streams={1 if http1 else streams}", *(["--h1"] if http1 else [])]
    words += [f"--rps={rate / clients}", f"--connection-inactivity-timeout={REQUEST_S_MAX:.0f}"] if rate else []
    expected_s = requests / rate if rate else 60
    done = subprocess.run([*words, url], capture_output=True, text=True, timeout=2 * expected_s + END_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return counted_by_h2load(done.stdout)


def counted_by_h2load(said: str) -> Tally:
    """Its "failed" holds what was broken off and what took too long; other statuses stand on a line of their own."""
    requests = {kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", _line(said, "requests:"))}
    statuses = {kind: int(n) for n, kind in re.findall(r"(\d+) (\wxx)", _line(said, "status codes:"))}
    took = re.search(r"finished in ([\d.]+)(us|ms|s|m)\b", said)
    assert took is not None, said
    failed = {kind: requests[kind] for kind in ("failed", "errored", "timeout")}
    failed |= {kind: n for kind, n in statuses.items() if kind != "2xx"}
    seconds = float(took[1]) * {"us": 1e-6, "ms": 0.001, "s": 1, "m": 60}[took[2]]
    return Tally(requests["done"], seconds, {kind: n for kind, n in failed.items() if n})


def _line(said: str, beginning: str) -> str:
    return next(line for line in said.splitlines() if line.startswith(beginning))
