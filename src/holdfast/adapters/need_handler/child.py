"""One job of a handler in a process of its own: one document on its input, one on its output, then it is gone.

Its environment is empty and its arguments name no secret, so that nothing that is given or returned can be read from
outside of the process.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from holdfast.errors import Failed

ANSWER_BYTES_MAX = 64 * 1024
WORDS_BYTES_MAX = 2000
AT_ONCE_MAX = 4


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
            process = await self._started(arguments)
            try:
                async with asyncio.timeout(self._within_s):
                    return await _talk(process, document)
            except TimeoutError:
                return Ended(-signal.SIGKILL, b"", "", is_late=True)
            finally:
                await _end(process)

    async def _started(self, arguments: Sequence[str]) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command, *arguments, stdin=pipe, stdout=pipe, stderr=pipe,
                env={}, cwd="/", close_fds=True, start_new_session=True,
            )  # fmt: skip
        except OSError as trouble:
            raise Failed(
                f"the process of a handler cannot be started: {trouble.strerror}",
                remedy="look at the memory and the processes of this node: `ps aux`",
                code="handler_not_started",
            ) from trouble


async def _talk(process: asyncio.subprocess.Process, document: bytes) -> Ended:
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    words = asyncio.create_task(_last_words(process.stderr))
    try:
        with suppress(ConnectionError):
            process.stdin.write(document)
            await process.stdin.drain()
        process.stdin.close()
        answer = await _up_to(process.stdout, ANSWER_BYTES_MAX + 1)
        if len(answer) > ANSWER_BYTES_MAX:
            return Ended(-signal.SIGKILL, b"", "", is_long=True)
        code = await process.wait()
        return Ended(code, answer, (await words).decode("utf-8", "replace").strip())
    finally:
        words.cancel()


async def _up_to(stream: asyncio.StreamReader, most: int) -> bytes:
    found = b""
    while len(found) < most and (more := await stream.read(most - len(found))):
        found += more
    return found


async def _last_words(stream: asyncio.StreamReader) -> bytes:
    words = b""
    while more := await stream.read(4096):
        words = (words + more)[-WORDS_BYTES_MAX:]
    return words


async def _end(process: asyncio.subprocess.Process) -> None:
    """With what it started: it leads a group of its own."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
