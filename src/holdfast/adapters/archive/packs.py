"""Filling packs: members go into one buffer; full buffers are compressed, sealed and digested on all cores.

Memory is flat: a fixed number of buffers, and a fixed number of objects that wait in the spool for their targets.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from mmap import mmap
from queue import SimpleQueue

import zstandard

from holdfast.adapters.archive import member
from holdfast.adapters.archive.messages import UNDER_WAY_MAX, Channel, Ready
from holdfast.adapters.archive.sealed_file import SealedFile, compressor
from holdfast.model.archive import PACK_BYTES, Entry, PackRow

THREADS = 2
HEADERS_BYTES = 64 << 10  # so that four parts of long files fit
_BUFFER_BYTES = PACK_BYTES + (8 << 20)  # mapped: what is not used takes no memory

Resolve = Callable[[int, PackRow], None]


class Spool:
    """Objects on their way. `shipped` is called when every target has one."""

    def __init__(self, folder: str, recipient: str, channel: Channel) -> None:
        self.folder, self.recipient = folder, recipient
        self._channel = channel
        self._slots = threading.Semaphore(UNDER_WAY_MAX)
        self._waiting: dict[str, Callable[[], None]] = {}
        self._idle = threading.Condition()

    def begin(self, name: str) -> SealedFile:
        """Waits until there is room."""
        self._slots.acquire()
        return SealedFile(self.folder, name, self.recipient)

    def announce(self, digest: str, shipped: Callable[[], None]) -> None:
        with self._idle:
            self._waiting[digest] = shipped
        self._channel.say(Ready(digest))

    def answered(self, digest: str) -> None:
        with self._idle:
            shipped = self._waiting.pop(digest)
            shipped()
            self._slots.release()
            self._idle.notify_all()

    def settle(self) -> None:
        """Until nothing is under way."""
        with self._idle:
            while self._waiting:
                self._idle.wait()


class Packs:
    """`sealed` is called when a pack has its digest, `shipped` when every target has it; both from other threads."""

    def __init__(self, spool: Spool, comment: str, sealed: Resolve, shipped: Resolve) -> None:
        self._spool, self._first = spool, member.first(comment)
        self._sealed, self._shipped = sealed, shipped
        self._threads = ThreadPoolExecutor(THREADS)
        self._buffers: SimpleQueue[mmap] = SimpleQueue()
        for _ in range(THREADS + 1):
            self._buffers.put(mmap(-1, _BUFFER_BYTES))
        self._buffer: mmap | None = None
        self._at = self._plain = 0
        self._under_way: set[Future[None]] = set()
        self._local = threading.local()
        self.number = 0  # of the pack that is being filled

    def add(self, entry: Entry, name: bytes, kind: bytes, content: bytes | memoryview, link: bytes = b"") -> int:
        """Answers the number of the pack."""
        head = member.header(entry, name, kind, len(content), link)
        size = len(head) + len(content) + member.padding(len(content))
        if self._buffer is not None and self._at + size > PACK_BYTES + HEADERS_BYTES:
            self.close()
        if self._buffer is None:
            self._open()
        self._put(head)
        self._put(content)
        self._put(bytes(member.padding(len(content))))
        self._plain += weight(len(content))
        return self.number

    def _open(self) -> None:
        self._check()
        self._buffer = self._buffers.get()
        self._at = self._plain = 0
        self._put(self._first)

    def _put(self, content: bytes | memoryview) -> None:
        assert self._buffer is not None
        end = self._at + len(content)
        self._buffer[self._at : end] = content
        self._at = end

    def close(self) -> None:
        if self._buffer is None:
            return
        self._put(member.END)
        buffer, self._buffer = self._buffer, None
        self._under_way.add(self._threads.submit(self._finish, buffer, self._at, self._plain, self.number))
        self.number += 1

    def finish(self) -> None:
        self.close()
        for future in self._under_way:
            future.result()
        self._threads.shutdown()

    def _check(self) -> None:
        """A pack that could not be written ends the run soon."""
        done = {future for future in self._under_way if future.done()}
        self._under_way -= done
        for future in done:
            future.result()

    def _finish(self, buffer: mmap, end: int, plain: int, number: int) -> None:
        try:
            file = self._spool.begin(f"pack-{number}")
            with memoryview(buffer) as view, view[:end] as used:
                file.compress(used, self._compressor())
        finally:
            self._buffers.put(buffer)
        written = file.finish()
        row = PackRow(written.digest, written.size_bytes, plain, plain)
        self._sealed(number, row)
        self._spool.announce(written.digest, lambda: self._shipped(number, row))

    def _compressor(self) -> zstandard.ZstdCompressor:
        """One for each thread."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = compressor()
        found: zstandard.ZstdCompressor = self._local.compressor
        return found


def weight(size: int) -> int:
    """How much of a pack a member is."""
    return size + member.BLOCK


def emptied(folder: str) -> None:
    """What a cut run left in its spool."""
    os.makedirs(folder, 0o700, exist_ok=True)
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
