"""Limits of the hub's HTTP interface: bytes, seconds and places. They hold before a caller is identified."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import TryLater
from holdfast.ports.http_server import ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KIB = 1024
MIB = 1024 * KIB

# ---- a connection
CONNECTION = ConnectionLimits(
    handshake_s=10.0,
    head_s=15.0,  # from the end of the handshake, or from the first byte of a later request
    idle_s=5.0,
    idle_known_s=75.0,  # an agent keeps its one connection
    accept_pause_s=0.1,
    linger_s=2.0,
    line_bytes_max=8_190,
    header_bytes_max=8_190,
    headers_max=64,
    piece_bytes=64 * KIB,
)
ANSWER_S = 60.0  # for fetching a response

# ---- a request
BODY_BYTES_MAX = 1 * MIB
LARGE_BODY_BYTES_MAX = 48 * MIB  # a commit, or contents stored again
BODY_S = 15.0  # for any body; one that keeps coming gets a second more per PACE_BYTES …
BODY_S_MAX = 60.0  # … but never more than this
PACE_BYTES = 64 * KIB
OBJECT_BODY_S_MAX = 420.0  # a backup object may come slowly, at the pace

# ---- all connections together
LARGE_BODIES = 1  # in memory at once
LARGE_BODIES_WAITING = 2
LARGE_WAIT_S = 30.0
OBJECT_BODIES = 4  # backup objects in memory at once, 24 MiB each at most; commits have their own place
OBJECT_BODIES_WAITING = 60
OBJECT_BODIES_PER_CALLER = 2
BODIES_BYTES_MAX = 16 * MIB  # of ordinary bodies, sum over all connections
ANSWERS_BYTES_MAX = 64 * MIB  # of answers on their way out
SMALL_ANSWER_BYTES = 64 * KIB  # always sent: above all the confirmation of a commit
SWEEPS_WAITING = 2  # readers of the whole ledger, one at a time

# ---- a page
HISTORY_MAX = 200
LINKS_MAX = 500
LINKS_PAGE_BYTES = 4 * MIB
CONTENTS_PAGE_BYTES = 4 * MIB
AUDIT_LINES_MAX = 1_000

DRAIN_S = 5.0  # for requests under way when the hub stops


def busy(what: str) -> TryLater:
    return TryLater(
        f"this hub is busy: {what}", remedy="try again in a few seconds; nothing was changed", code="resource_exhausted"
    )


def body_deadline_s(received_bytes: int, most_s: float = BODY_S_MAX) -> float:
    """Seconds after the headers at which a body of which so much has come is given up."""
    return min(BODY_S + received_bytes / PACE_BYTES, most_s)


class Turnstile:
    """So many inside, so many waiting in line; one more is refused. For one event loop."""

    def __init__(self, inside: int, waiting: int, wait_s: float, what: str) -> None:
        self._free = asyncio.Semaphore(inside)
        self._places = inside + waiting
        self._taken = 0
        self._wait_s = wait_s
        self._what = what

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        if self._taken >= self._places:
            raise busy(self._what)
        self._taken += 1
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._free.acquire()
            except TimeoutError:
                raise busy(self._what) from None
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._taken -= 1


class Budget:
    """Bytes that all connections share. Taken piece by piece as they come, given back together."""

    def __init__(self, bytes_max: int, what: str) -> None:
        self._left_bytes = bytes_max
        self._what = what

    @contextmanager
    def share(self) -> Iterator[Share]:
        share = Share(self)
        try:
            yield share
        finally:
            self._left_bytes += share.bytes_taken

    def take(self, size_bytes: int) -> None:
        if size_bytes > self._left_bytes:
            raise busy(self._what)
        self._left_bytes -= size_bytes


class Share:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.bytes_taken = 0

    def take(self, size_bytes: int) -> None:
        self._budget.take(size_bytes)
        self.bytes_taken += size_bytes
