"""One job of a handler in a process of its own: one document on its input, one on its output, then it is gone.

Its environment is empty and its arguments name no secret, so that nothing that is given or returned can be read from
outside of the process. A thread speaks with it: asyncio of Python 3.11 waits for ever for a process whose start is
cancelled.
"""

import asyncio
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from msgspec import Struct

from holdfast.errors import Failed

ANSWER_BYTES_MAX = 64 * 1024
WORDS_BYTES_MAX = 2000
AT_ONCE_MAX = 4
LOOK_S = 0.05


class Ended(Struct, frozen=True):
    """`words`: of its standard error. `is_late`, `is_long`: it was killed because of its deadline, or its output."""

    code: int
    answer: bytes
    words: str
    is_late: bool = False
    is_long: bool = False


class Children:
    """A few at a time: each takes some 40 MB."""

    def __init__(self, command: Sequence[str], within_s: float) -> None:
        self._command, self._within_s = tuple(command), within_s
        self._room = asyncio.Semaphore(AT_ONCE_MAX)

    async def run(self, arguments: Sequence[str], document: bytes) -> Ended:
        async with self._room:
            stop = threading.Event()
            try:
                return await asyncio.to_thread(self._job, arguments, document, stop)
            finally:
                stop.set()

    def _job(self, arguments: Sequence[str], document: bytes, stop: threading.Event) -> Ended:
        return _Talk(self._started(arguments), document, self._within_s, stop).ended()

    def _started(self, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={}, cwd="/", start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as trouble:
            raise Failed(
                f"the process of a handler cannot be started: {trouble.strerror}",
                remedy="look at the memory and the disk of this node: `df -h` and `dmesg`",
                code="handler_not_started",
            ) from trouble


class _Talk:
    """In a thread, which alone reaps the process: a signal never reaches another one with the same number."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", document: bytes, within_s: float, stop: threading.Event
    ) -> None:
        self._process, self._stop = process, stop
        self._left = memoryview(document)
        self._until_s = time.monotonic() + within_s
        self._answer = self._words = b""

    def ended(self) -> Ended:
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        with selectors.DefaultSelector() as ends, self._process.stdin, self._process.stdout, self._process.stderr:
            for end, event in (
                (self._process.stdin, selectors.EVENT_WRITE),
                (self._process.stdout, selectors.EVENT_READ),
                (self._process.stderr, selectors.EVENT_READ),
            ):
                os.set_blocking(end.fileno(), False)
                ends.register(end, event)
            try:
                return self._talked(ends)
            finally:
                self._kill()

    def _talked(self, ends: selectors.BaseSelector) -> Ended:
        while ends.get_map() or self._process.poll() is None:
            if self._stop.is_set() or time.monotonic() > self._until_s:
                return Ended(-signal.SIGKILL, b"", "", is_late=True)
            if len(self._answer) > ANSWER_BYTES_MAX:
                return Ended(-signal.SIGKILL, b"", "", is_long=True)
            if not ends.get_map():
                time.sleep(LOOK_S)
            for key, _ in ends.select(LOOK_S) if ends.get_map() else ():
                self._served(ends, key.fileobj)  # type: ignore[arg-type]
        return Ended(self._process.returncode, self._answer, self._words.decode("utf-8", "replace").strip())

    def _served(self, ends: selectors.BaseSelector, end: IO[bytes]) -> None:
        if end is self._process.stdin:
            is_over = self._written(end)
        else:
            more = os.read(end.fileno(), 65536)
            is_over = not more
            if end is self._process.stdout:
                self._answer += more
            else:
                self._words = (self._words + more)[-WORDS_BYTES_MAX:]
        if is_over:
            ends.unregister(end)
            end.close()

    def _written(self, end: IO[bytes]) -> bool:
        """True once all is written, or it is not read."""
        try:
            self._left = self._left[os.write(end.fileno(), self._left) :]
        except OSError:
            return True
        return not self._left

    def _kill(self) -> None:
        """With what it started: it leads a group of its own."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
