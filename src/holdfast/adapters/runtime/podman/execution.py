"""Run a command inside a container with podman's command line.

The REST interface of podman 4.3 keeps two processes alive for five minutes per command; health checks run every second.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

from holdfast.adapters.process import process
from holdfast.adapters.runtime.podman.inside import Inside
from holdfast.adapters.walking import private
from holdfast.errors import Failed, TryLater
from holdfast.ports.runtime import Finished, Pipe, Piped

OUTPUT_BYTES_MAX = 64 * 1024
PIECE_BYTES = 16 * 1024
TIMED_OUT = 124  # the code of coreutils' timeout
LOOK_S = 0.2  # between two looks at the room that a file has
RESERVE_BYTES_MAX, RESERVE_SHARE = 256 << 20, 20  # of its disk, which stays free
TAIL_BYTES = 4096
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MARK = "HOLDFAST_EXEC"  # an environment variable that identifies the command and its children


class Execution:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = [*command, "exec"]
        self._environ = dict(environ)

    async def run(self, id: str, words: Sequence[str], timeout_s: float) -> Finished:
        return await self._run(id, [], words, timeout_s, _NO_FILES)

    async def pipe(self, id: str, pid: int, words: Sequence[str], pipe: Pipe, timeout_s: float) -> Piped:
        """`pid`: of the container's first process. The files are those of podman's process: nothing of them passes
        through this one."""
        options = ["--user", process.user_inside(pid), *(["--interactive"] if pipe.source else [])]
        is_done = False
        try:
            with _opened(pipe) as files:
                done = await self._watched(self._run(id, options, words, timeout_s, files), files, pipe)
            is_done = done.code == 0
            return done
        finally:
            if pipe.sink and not is_done:
                with suppress(OSError):
                    os.unlink(pipe.sink)

    async def _watched(self, run: Coroutine[Any, Any, Finished], files: "_Files", pipe: Pipe) -> Piped:
        running = asyncio.ensure_future(run)
        try:
            while not (await asyncio.wait({running}, timeout=LOOK_S))[0]:
                _check_room(files, pipe)
            done = running.result()
        finally:
            running.cancel()
            await asyncio.wait({running})
        _check_room(files, pipe)  # podman may end well although the disk took no more
        if files.sink is None:
            return Piped(done.code, done.output)
        await asyncio.get_running_loop().run_in_executor(None, os.fsync, files.sink)
        size_bytes = os.fstat(files.sink).st_size
        return Piped(
            done.code, done.output, size_bytes, os.pread(files.sink, TAIL_BYTES, max(size_bytes - TAIL_BYTES, 0))
        )

    async def _run(
        self, id: str, options: Sequence[str], words: Sequence[str], timeout_s: float, files: "_Files"
    ) -> Finished:
        mark = f"{MARK}={os.urandom(8).hex()}"
        output = bytearray()
        child = await self._spawn([*self._command, *options, "--env", mark, id, *words], files)
        try:
            async with asyncio.timeout(timeout_s):
                code = await _followed(child, output)
        except TimeoutError:
            output += f"killed after {timeout_s:g} s\n".encode()
            code = TIMED_OUT
        finally:
            if child.returncode is None:
                _end_inside(id, mark)
                child.kill()
                await asyncio.shield(child.wait())
        return Finished(code, output.decode("utf-8", errors="replace"))

    @asynccontextmanager
    async def talk(self, id: str, words: Sequence[str]) -> AsyncIterator[Inside]:
        """With a command that copies its input to a connection, and back. It ends with the context."""
        mark = f"{MARK}={os.urandom(8).hex()}"
        child = await self._spawn([*self._command, "--interactive", "--env", mark, id, *words], _TALK)
        try:
            yield Inside(child)
        finally:
            if child.returncode is None:
                _end_inside(id, mark)
                child.kill()
                await asyncio.shield(child.wait())

    async def _spawn(self, words: Sequence[str], files: "_Files") -> asyncio.subprocess.Process:
        piped = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL if files.source is None else files.source,
                stdout=piped if files.sink is None else files.sink,
                stderr=files.errors or (asyncio.subprocess.STDOUT if files.sink is None else piped),
                start_new_session=True,
            )
        except OSError as trouble:
            raise TryLater(
                f"cannot start {words[0]}: {trouble.strerror}",
                remedy="on the node: apt install podman",
                code="runtime_away",
            ) from trouble


class _Files(NamedTuple):
    source: int | None = None
    sink: int | None = None
    errors: int = 0


_NO_FILES = _Files()
_TALK = _Files(source=asyncio.subprocess.PIPE, errors=asyncio.subprocess.DEVNULL)


@contextmanager
def _opened(pipe: Pipe) -> Iterator[_Files]:
    with ExitStack() as handles:
        source = sink = None
        if pipe.source:
            source = _source(pipe.source)
            handles.callback(os.close, source)
        if pipe.sink:
            private.make(os.path.dirname(pipe.sink))
            with suppress(FileNotFoundError):
                os.unlink(pipe.sink)
            sink = os.open(pipe.sink, _NEW, 0o600)
            handles.callback(os.close, sink)
        yield _Files(source, sink)


def _source(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as trouble:
        raise Failed(
            f"{path} cannot be read: {trouble.strerror}",
            remedy="`holdfast backup list` shows other backups",
            code="no_dump",
        ) from trouble


def _check_room(files: _Files, pipe: Pipe) -> None:
    if files.sink is None:
        return
    about = os.fstatvfs(files.sink)
    reserve = min(RESERVE_BYTES_MAX, about.f_blocks * about.f_frsize // RESERVE_SHARE)
    if about.f_bavail * about.f_frsize <= reserve:
        raise Failed(
            f"the disk of {pipe.sink} has no room for the output of the command",
            remedy=f"free space on it: df {shlex.quote(os.path.dirname(pipe.sink))}",
            code="no_space",
        )


async def _followed(child: asyncio.subprocess.Process, output: bytearray) -> int:
    """Keeps only the end of the output."""
    said = child.stdout or child.stderr
    assert said is not None
    while piece := await said.read(PIECE_BYTES):
        output += piece
        del output[:-OUTPUT_BYTES_MAX]
    return await child.wait()


def _end_inside(id: str, mark: str) -> None:
    """Killing podman's client does not end the command inside. Twice, for children that it started meanwhile."""
    for _ in range(2):
        for found in process.with_variable(mark):
            if process.belongs(found, id):
                process.send(found, signal.SIGKILL)
