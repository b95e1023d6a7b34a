"""Both ends of streams in one process. Certificates are compared, not proven; everything else is as with a hub."""

import asyncio
import queue
import threading
import time
from contextlib import suppress

from holdfast.adapters.stream_link.inner_tls import cut
from holdfast.errors import Unreachable
from holdfast.model.certificate import Issued
from holdfast.ports.stream_link import CallerKey, Pinned, StreamForged

PIECES = 8  # on their way in one direction
PAUSE_S = 0.002


class Pipe:
    """Two queues and a flag; `mine` is what this end reads."""

    def __init__(self, mine: "queue.Queue[bytes]", theirs: "queue.Queue[bytes]", over: threading.Event) -> None:
        self._mine, self._theirs, self._over = mine, theirs, over

    def read_now(self) -> bytes | None:
        try:
            return self._mine.get_nowait()
        except queue.Empty:
            return b"" if self._over.is_set() else None

    def write_now(self, content: bytes) -> bool:
        if self._over.is_set():
            raise cut("the other end")
        with suppress(queue.Full):
            self._theirs.put_nowait(content)
            return True
        return False

    def end(self) -> None:
        self._over.set()


class MemoryChannel:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def read(self) -> bytes:
        while (found := self._pipe.read_now()) is None:
            await asyncio.sleep(PAUSE_S)
        return found

    async def write(self, content: bytes) -> None:
        while content and not self._pipe.write_now(content):
            await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        self._pipe.end()


class MemoryTalk:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def read(self, at_most_s: float) -> bytes | None:
        until_s = time.monotonic() + at_most_s
        while (found := self._pipe.read_now()) is None:
            if time.monotonic() > until_s:
                return None
            time.sleep(PAUSE_S)
        return found

    def write(self, content: bytes) -> None:
        while not self._pipe.write_now(content):
            time.sleep(PAUSE_S)

    def close(self) -> None:
        self._pipe.end()


class Rendezvous:
    """What one end laid down for the other: who it is, and whom it wants."""

    def __init__(self) -> None:
        self.up: queue.Queue[bytes] = queue.Queue(PIECES)
        self.down: queue.Queue[bytes] = queue.Queue(PIECES)
        self.over = threading.Event()
        self.node: tuple[Issued, bytes] | None = None
        self.caller: tuple[CallerKey, Pinned] | None = None

    def complaint(self) -> str | None:
        """Once both are here: why they do not belong together, or None."""
        assert self.node is not None and self.caller is not None, "both are here"
        (shown, wanted), (key, pinned) = self.node, self.caller
        if key.certificate != wanted:
            return "the caller's certificate is not the one that the order names"
        if pinned.name not in shown.facts.names or not shown.chain.endswith(pinned.issuer):
            return f"what answers is not {pinned.node}"
        return None


class MemoryMeetings:
    """The hub's part, and both ports. A chain is the leaf followed by its issuer, as with real ones."""

    def __init__(self, wait_s: float = 5.0) -> None:
        self._wait_s = wait_s
        self._there: dict[str, Rendezvous] = {}
        self._keys = 0

    def key(self) -> CallerKey:
        self._keys += 1
        return CallerKey(f"caller {self._keys}".encode(), b"", b"")

    async def answer(self, order: str, shown: Issued, caller: bytes) -> MemoryChannel:
        meeting = self._there.setdefault(order, Rendezvous())
        meeting.node = (shown, caller)
        until_s = time.monotonic() + self._wait_s
        while meeting.caller is None:
            if time.monotonic() > until_s:
                meeting.node = None
                raise _nobody(order)
            await asyncio.sleep(PAUSE_S)
        self._check(meeting)
        return MemoryChannel(Pipe(meeting.up, meeting.down, meeting.over))

    def call(self, order: str, key: CallerKey, node: Pinned) -> MemoryTalk:
        meeting = self._there.setdefault(order, Rendezvous())
        meeting.caller = (key, node)
        until_s = time.monotonic() + self._wait_s
        while meeting.node is None:
            if time.monotonic() > until_s:
                meeting.caller = None
                raise _nobody(order)
            time.sleep(PAUSE_S)
        self._check(meeting)
        return MemoryTalk(Pipe(meeting.down, meeting.up, meeting.over))

    def _check(self, meeting: Rendezvous) -> None:
        why = meeting.complaint()
        if why is not None:
            raise StreamForged(why, remedy="repeat the command")


def _nobody(order: str) -> Unreachable:
    return Unreachable(f"no other end connected to {order}", remedy="repeat it", code="nobody_came")
