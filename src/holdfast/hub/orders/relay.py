"""Relay streams between commands and nodes: two connections meet under an order's id. Reads no content.

The stream is TLS between the two ends (ADR 0020), so the hub can neither read nor change it. The relay decides who may
connect and how many streams there are; a slow reader makes the other end wait, not the hub.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal, Protocol

from holdfast.errors import Conflict, Invalid, Limited, NotPermitted, Unreachable
from holdfast.model.order import Order
from holdfast.model.principal import Principal
from holdfast.model.stream import ACTIONS

KIB = 1024
BUFFER_BYTES = 64 * KIB  # of one direction; plus what a connection still delivers after it was paused
MEET_S = 45.0  # the first end waits so long for the second: a busy agent checks in every 30 s
EXPECTED_S = 120.0  # after the order; then no end may connect
EXPECTED_MAX = 1_024
IDLE_S = 120.0  # both ends send keep-alives more often
OPEN_MAX = 256
LOOK_S = 0.5  # how often a waiting connection is checked

End = Literal["node", "operator"]
# At once. Fewer than the connections of one client (hub/http/slots.py), so that a node that streams still checks in.
MOST: Mapping[End, int] = {"node": 8, "operator": 12}


class Line(Protocol):
    """A connection that carries a stream from now on (ports/http_server.py)."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def send(self, piece: bytes) -> None:
        """Returns when next to nothing of it is left here. Raises ConnectionError when the peer is gone."""
        ...


class Half:
    """One end's connection, and the bytes from it that the other end has not received yet."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._held = bytearray()
        self._news = asyncio.Event()
        self._is_over = False
        self._is_paused = False

    def feed(self, content: bytes) -> None:
        self._held += content
        self._news.set()
        if len(self._held) >= BUFFER_BYTES and not self._is_paused:
            self._is_paused = True
            self._line.pause()

    def over(self) -> None:
        self._is_over = True
        self._news.set()

    async def piece(self) -> bytes:
        """b"" once everything was taken and no more comes."""
        while not self._held and not self._is_over:
            self._news.clear()
            await self._news.wait()
        piece = bytes(self._held[:BUFFER_BYTES])
        del self._held[:BUFFER_BYTES]
        if self._is_paused and len(self._held) < BUFFER_BYTES // 2:
            self._is_paused = False
            self._line.resume()
        return piece

    async def give(self, piece: bytes) -> None:
        await self._line.send(piece)


class Meeting:
    """One order's stream: who is expected, who has come, and whether it is over."""

    def __init__(self, order: str, node: str, operator: str, until_s: float) -> None:
        self.order = order
        self.names: dict[End, str] = {"node": node, "operator": operator}
        self.until_s = until_s
        self.here: set[End] = set()
        self.complete = asyncio.Event()
        self._halves: dict[End, Half] = {}
        self._both = asyncio.Event()
        self._over = asyncio.Event()
        self._moved_s = 0.0

    def end(self) -> None:
        self._over.set()

    async def run(self, end: End, half: Half) -> None:
        """Copy bytes from this end to the other, until either has left. The response to this end is already written."""
        loop = asyncio.get_running_loop()
        self._moved_s = loop.time()
        self._halves[end] = half
        if len(self._halves) == 2:
            self._both.set()
        carrying = asyncio.ensure_future(self._carry(end, half))
        over = asyncio.ensure_future(self._over.wait())
        try:
            while not (carrying.done() or over.done()):
                quiet_s = loop.time() - self._moved_s
                if quiet_s >= IDLE_S:
                    break
                await asyncio.wait({carrying, over}, timeout=IDLE_S - quiet_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.end()
            for task in (carrying, over):
                task.cancel()
            await asyncio.gather(carrying, over, return_exceptions=True)

    async def _carry(self, end: End, half: Half) -> None:
        await self._both.wait()
        other = self._halves["operator" if end == "node" else "node"]
        with suppress(ConnectionError):
            while piece := await half.piece():
                await other.give(piece)
                self._moved_s = asyncio.get_running_loop().time()


class Relay:
    """For one event loop. Expected streams are not stored: after a restart no end is waiting."""

    def __init__(self) -> None:
        self._expected: OrderedDict[str, Meeting] = OrderedDict()
        self._open: dict[str, Meeting] = {}

    @property
    def open(self) -> int:
        return len(self._open)

    def expect(self, order: Order, by: Principal, now_s: float) -> None:
        """An order was taken whose node will come here; `now_s` is monotonic."""
        if order.action not in ACTIONS or order.id in self._expected or order.id in self._open:
            return
        self._expected[order.id] = Meeting(order.id, order.node, by.name, now_s + EXPECTED_S)
        while len(self._expected) > EXPECTED_MAX or next(iter(self._expected.values())).until_s <= now_s:
            self._expected.popitem(last=False)

    async def meet(self, order: str, who: Principal, now_s: float, is_gone: Callable[[], bool]) -> tuple[Meeting, End]:
        """Return when both ends are connected. An end that leaves before that may connect again."""
        meeting, end = self._invited(order, who, now_s)
        self._check_room(meeting)
        if end in meeting.here:
            raise Conflict(
                f"this end of stream {order[:12]}… is connected already", remedy="repeat the command", code="taken"
            )
        meeting.here.add(end)
        try:
            if len(meeting.here) == 2:
                self._begin(meeting)
            else:
                await _wait(meeting, is_gone)
        except BaseException:
            meeting.here.discard(end)
            raise
        return meeting, end

    def leave(self, meeting: Meeting) -> None:
        """May be called more than once."""
        meeting.end()
        self._open.pop(meeting.order, None)

    def _invited(self, order: str, who: Principal, now_s: float) -> tuple[Meeting, End]:
        meeting = self._expected.get(order)
        end: End = "node" if who.kind == "node" else "operator"
        if meeting is None or meeting.until_s <= now_s:
            raise Invalid(
                f"no stream {order[:12]}… is expected here (any more)", remedy="repeat the command", code="not_found"
            )
        if meeting.names[end] != who.name:
            raise NotPermitted(
                f"stream {order[:12]}… is for another {end}, not for {who}",
                remedy="`holdfast audit` shows who ordered it",
            )
        return meeting, end

    def _check_room(self, meeting: Meeting) -> None:
        there = list(self._open.values())
        for end, most in MOST.items():
            name = meeting.names[end]
            if sum(1 for one in there if one.names[end] == name) >= most:
                raise _crowded(f"{end} {name} has {most} streams")
        if len(there) >= OPEN_MAX:
            raise _crowded(f"this hub carries {OPEN_MAX} streams")

    def _begin(self, meeting: Meeting) -> None:
        del self._expected[meeting.order]
        self._open[meeting.order] = meeting
        meeting.complete.set()


async def _wait(meeting: Meeting, is_gone: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(MEET_S):
            while not meeting.complete.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await meeting.complete.wait()
                if is_gone() and not meeting.complete.is_set():
                    raise ConnectionError("the waiting end has left")
    except TimeoutError:
        missing = meeting.names["operator" if "node" in meeting.here else "node"]
        raise Unreachable(
            f"{missing} did not answer within {MEET_S:.0f} s (log stream {meeting.order[:12]}…)",
            remedy=f"holdfast node show {meeting.names['node']}; then repeat the command",
            code="nobody_came",
        ) from None


def _crowded(what: str) -> Limited:
    return Limited(f"{what} already", remedy="end one of them (Ctrl-C) and try again", retry_after_s=5.0)
