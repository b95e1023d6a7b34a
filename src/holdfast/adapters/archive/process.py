"""The archiver as the agent uses it: one process for each job, ended when the job is over or cancelled."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from holdfast.adapters.archive import comparing, messages
from holdfast.adapters.archive.child import RESULT
from holdfast.adapters.walking import private
from holdfast.errors import Failed
from holdfast.model.archive import OBJECT_BYTES_MAX
from holdfast.ports.archive import Fetch, Flaw, Packed, PackJob, Ship, Stored, Tell, Unpacked, UnpackJob, UpdateJob

_LINE_BYTES_MAX = 1 << 20
WORDS_MAX = 300
ANSWERS_S = 2.0  # then it is killed
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "PYTHONDONTWRITEBYTECODE": "1"}  # else each thread keeps what it freed

COMMAND = (sys.executable, "-m", "holdfast.adapters.archive.child")

T = TypeVar("T")
Serve = Callable[[messages.Event], Awaitable[None]]


class ProcessArchiver:
    """`command` starts the process; tests put another program before it."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command

    async def pack(self, job: PackJob, ship: Ship, tell: Tell) -> Packed:
        out = os.path.join(job.home, "out")

        async def serve(event: messages.Event) -> None:
            assert isinstance(event, messages.Ready)
            path = os.path.join(out, event.digest)
            await ship(event.digest, await asyncio.to_thread(_content, path))
            os.unlink(path)

        private.make(job.home)
        try:
            packed = await self._run(messages.Work(verb="pack", pack=job), job.home, serve, tell, Packed)
        except BaseException:
            _leave(job.home, "out", "databases")
            raise
        finally:
            if job.dump:
                with suppress(FileNotFoundError):
                    os.unlink(job.dump)
        path = os.path.join(out, packed.digest)
        manifest = await asyncio.to_thread(_content, path)
        os.unlink(path)
        return msgspec.structs.replace(packed, manifest=manifest)

    async def recall(self, job: UnpackJob, fetch: Fetch) -> None:
        await self._unpacking("recall", job, fetch, lambda progress: None, type(None))

    async def unpack(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Unpacked:
        return await self._unpacking("unpack", job, fetch, tell, Unpacked)

    async def update(self, job: UpdateJob, fetch: Fetch, tell: Tell) -> Unpacked:
        return await self._unpacking("update", job, fetch, tell, Unpacked)

    async def verify(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        return await self._unpacking("verify", job, fetch, tell, tuple[Flaw, ...])

    async def compare(self, stored: Sequence[Stored], fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        return await comparing.compare(stored, fetch, tell)

    async def export(self, job: UnpackJob, fetch: Fetch, path: str, tell: Tell) -> Unpacked:
        return await self._unpacking("export", job, fetch, tell, Unpacked, path)

    async def forget(self, home: str) -> None:
        with suppress(FileNotFoundError):
            await asyncio.to_thread(shutil.rmtree, home)

    async def _unpacking(self, verb: str, job: UnpackJob, fetch: Fetch, tell: Tell, kind: type[T], path: str = "") -> T:
        folder = os.path.join(job.home, "in")

        async def serve(event: messages.Event) -> None:
            assert isinstance(event, messages.Need)
            content = await fetch(event.digest)
            await asyncio.to_thread(_keep, os.path.join(folder, event.digest), content)

        private.make(job.home)
        try:
            return await self._run(messages.Work(verb=verb, unpack=job, path=path), job.home, serve, tell, kind)
        finally:
            _leave(job.home, "in")

    async def _run(self, work: messages.Work, home: str, serve: Serve, tell: Tell, kind: type[T]) -> T:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(home, RESULT))
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe,
            env={**os.environ, **_ENVIRONMENT}, limit=_LINE_BYTES_MAX, start_new_session=True,
        )  # fmt: skip
        handle = _handle(child.pid)
        try:
            async with asyncio.TaskGroup() as tasks:
                words = tasks.create_task(_last_words(child))
                is_finished = await _talk(work, child, serve, tell, tasks)
            if not is_finished:
                raise _died(await child.wait(), words.result())
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            await _ended(child, handle)
        with open(os.path.join(home, RESULT), "rb") as file:
            content = file.read()
        os.unlink(os.path.join(home, RESULT))
        return msgspec.json.decode(content, type=kind)


async def _ended(child: asyncio.subprocess.Process, handle: int | None) -> None:
    """It takes the answers that are on their way first: what was stored for it is not stored again."""
    try:
        if child.stdin is not None:
            child.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWERS_S):
                await child.wait()
    finally:
        if handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        await child.wait()


def _leave(home: str, *folders: str) -> None:
    """The process is over: what is on its way there is of no use, and may take the last room of the disk."""
    for folder in folders:
        with suppress(OSError):
            for name in os.listdir(os.path.join(home, folder)):
                os.unlink(os.path.join(home, folder, name))


def _handle(pid: int) -> int | None:
    """By handle: the number may belong to another process later. None if the process has ended already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


async def _talk(
    work: messages.Work, child: asyncio.subprocess.Process, serve: Serve, tell: Tell, tasks: asyncio.TaskGroup
) -> bool:
    """Until it has finished; False if it ended before."""
    assert child.stdin is not None and child.stdout is not None
    sink = child.stdin

    async def answer(event: messages.Ready | messages.Need) -> None:
        await serve(event)
        with suppress(ConnectionError):
            sink.write(event.digest.encode() + b"\n")
            await sink.drain()

    with suppress(ConnectionError):
        sink.write(messages.line(work))
        await sink.drain()
    while text := await child.stdout.readline():
        event = messages.event_of(text)
        match event:
            case messages.Ready() | messages.Need():
                tasks.create_task(answer(event))
            case messages.Told(progress):
                tell(progress)
            case messages.Trouble():
                raise messages.error_of(event)
            case messages.Finished():
                return True
    return False


async def _last_words(child: asyncio.subprocess.Process) -> str:
    assert child.stderr is not None
    words = b""
    while more := await child.stderr.read(4096):
        words = (words + more)[-WORDS_MAX:]
    return words.decode("utf-8", "replace").strip()


def _died(code: int, words: str) -> Failed:
    return Failed(
        f"the archiver process ended with {code} before its work was done{f': {words}' if words else ''}",
        remedy="the next backup goes on; if it ends again, look at the memory of this node: `dmesg`",
        code="archiver_died",
    )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error, as if there were no group: the archiver's own rather than one that it caused."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(OBJECT_BYTES_MAX + 1)


def _keep(path: str, content: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(content)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
