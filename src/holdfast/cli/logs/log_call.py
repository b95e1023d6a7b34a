"""Log streams of several nodes: one thread each and one bounded inbox, which slows the nodes down when full."""

import threading
import time
from collections.abc import Iterable

from holdfast.cli.logs.log_merge import Merging
from holdfast.errors import Failed, HoldfastError
from holdfast.model.stream import (
    ALIVE_S,
    SILENT_S,
    Alive,
    CaughtUp,
    Ended,
    Frame,
    StreamedLine,
)
from holdfast.ports.stream_link import CallerKey, CallerStreams, Pinned, StreamCut, Talk
from holdfast.wire import stream as wire

TICK_S = 1.0


class Inbox:
    """The queue between the receiving threads and the printing one."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._merging = Merging(nodes)
        self._turn = threading.Condition()
        self.pending = set(nodes)  # no answer yet
        self.left: dict[str, HoldfastError | None] = {}

    def met(self, node: str) -> None:
        with self._turn:
            self.pending.discard(node)

    def late(self, nodes: Iterable[str]) -> None:
        """Lines of other nodes are no longer held back for these."""
        with self._turn:
            for node in nodes:
                self._merging.caught_up(node)

    def put(self, node: str, frame: Frame, at_most_s: float) -> bool:
        """False: the inbox is full."""
        with self._turn:
            if isinstance(frame, StreamedLine):
                if not self._turn.wait_for(lambda: self._merging.has_room(node), at_most_s):
                    return False
                self._merging.add(node, frame)
            elif isinstance(frame, CaughtUp):
                self._merging.caught_up(node)
            self._turn.notify_all()
            return True

    def leave(self, node: str, why: HoldfastError | None) -> None:
        """Only the first reason is kept."""
        with self._turn:
            self.left.setdefault(node, why)
            self.pending.discard(node)
            self._merging.caught_up(node)
            self._turn.notify_all()

    def take(self, most: int, at_most_s: float) -> list[tuple[str, StreamedLine]]:
        """The lines that can be shown now; none if no line arrived in time."""
        with self._turn:
            found = self._next(most)
            if not found and self._turn.wait(at_most_s):
                found = self._next(most)
            if found:
                self._turn.notify_all()
            return found

    def _next(self, most: int) -> list[tuple[str, StreamedLine]]:
        found: list[tuple[str, StreamedLine]] = []
        while len(found) < most and (line := self._merging.next()) is not None:
            found.append(line)
        return found


class Call(threading.Thread):
    """One node's stream, from connecting to its end."""

    def __init__(self, streams: CallerStreams, order: str, key: CallerKey, node: Pinned, inbox: Inbox) -> None:
        super().__init__(name=f"logs of {node.node}", daemon=True)
        self._streams = streams
        self._order = order
        self._key = key
        self._pinned = node
        self._inbox = inbox
        self._talk: Talk | None = None
        self._is_dropped = False
        self._spoke_s = 0.0

    def run(self) -> None:
        why: HoldfastError | None = None
        try:
            self._talk = self._streams.call(self._order, self._key, self._pinned)
            self._listen(self._talk)
        except HoldfastError as trouble:
            why = trouble
        except Exception as trouble:  # a bug here must not look like a silent node
            why = Failed(f"{type(trouble).__name__}: {trouble}", remedy="report this", code="internal_error")
        finally:
            self.close()
        if not self._is_dropped:
            self._inbox.leave(self._pinned.node, why)

    def drop(self) -> None:
        """Close without reporting; another call may have replaced this one."""
        self._is_dropped = True
        self.close()

    def close(self) -> None:
        if self._talk is not None:
            self._talk.close()

    def _listen(self, talk: Talk) -> None:
        frames, node = wire.Frames(), self._pinned.node
        heard_s = time.monotonic()
        while True:
            said = talk.read(TICK_S)
            if said == b"":
                raise _cut(node)
            if said is None:
                if time.monotonic() - heard_s > SILENT_S:
                    raise _cut(node)
                self._be_alive(talk)
                continue
            heard_s = time.monotonic()
            for frame in frames.feed(said):
                self._inbox.met(node)
                if isinstance(frame, Ended):
                    if frame.code:
                        raise Failed(f"{node}: {frame.message}", remedy=frame.remedy, code=frame.code)
                    return
                while not self._inbox.put(node, frame, TICK_S):
                    self._be_alive(talk)
            self._be_alive(talk)

    def _be_alive(self, talk: Talk) -> None:
        if time.monotonic() - self._spoke_s >= ALIVE_S:
            talk.write(wire.written([Alive()]))
            self._spoke_s = time.monotonic()


def _cut(node: str) -> StreamCut:
    return StreamCut(
        f"the stream from {node} was cut: the hub, the agent or the connection to them failed",
        remedy="repeat the command (--since 1m shows what was missed); `holdfast node list` shows the nodes",
    )
