"""Run a command inside a container with podman's command line.

The REST interface of podman 4.3 keeps two processes alive for five minutes per command; health checks run every second.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from holdfast.adapters.process import process
from holdfast.errors import Failed, TryLater
from holdfast.ports.runtime import Finished, Pipe

OUTPUT_BYTES_MAX = 64 * 1024
PIECE_BYTES = 16 * 1024
TIMED_OUT = 124  # the code of coreutils' timeout
LOOK_S = 0.2  # between two looks at the room that a file has
RESERVE_BYTES_MAX, RESERVE_SHARE = 256 << 20, 20  # of its disk, which stays free
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MARK = "HOLDFAST_EXEC"  # an environment variable that identifies the command and its children


class Execution:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = [*command, "exec"]
        self._environ = dict(environ)

    async def run(self, id: str, words: Sequence[str], timeout_s: float) -> Finished:
        return await self._run(id, [], words, timeout_s, _NO_FILES)

    async def pipe(self, id: str, user: str, words: Sequence[str], pipe: Pipe, timeout_s: float) -> Finished:
        """The files are those of podman's process: nothing of them passes through this one."""
        with _opened(pipe) as files:
            options = ["--user", user, *(["--interactive"] if pipe.source else [])]
            running = asyncio.ensure_future(self._run(id, options, words, timeout_s, files))
            try:
                while not (await asyncio.wait({running}, timeout=LOOK_S))[0]:
                    if files.sink is not None and not _has_room(files.sink):
                        raise _no_space(pipe.sink)
                finished = running.result()
                if files.sink is not None:
                    if not _has_room(files.sink):
                        raise _no_space(pipe.sink)  # podman may end well although its disk took no more
                    await asyncio.get_running_loop().run_in_executor(None, os.fsync, files.sink)
                return finished
            finally:
                running.cancel()
                await asyncio.wait({running})

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

    async def _spawn(self, words: Sequence[str], files: "_Files") -> asyncio.subprocess.Process:
        piped = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL if files.source is None else files.source,
                stdout=piped if files.sink is None else files.sink,
                stderr=asyncio.subprocess.STDOUT if files.sink is None else piped,
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


_NO_FILES = _Files()


@contextmanager
def _opened(pipe: Pipe) -> Iterator[_Files]:
    with ExitStack() as handles:
        source = sink = None
        if pipe.source:
            source = os.open(pipe.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            handles.callback(os.close, source)
        if pipe.sink:
            os.makedirs(os.path.dirname(pipe.sink), 0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(pipe.sink)
            sink = os.open(pipe.sink, _NEW, 0o600)
            handles.callback(os.close, sink)
        yield _Files(source, sink)


def _has_room(file: int) -> bool:
    about = os.fstatvfs(file)
    reserve = min(RESERVE_BYTES_MAX, about.f_blocks * about.f_frsize // RESERVE_SHARE)
    return about.f_bavail * about.f_frsize > reserve


def _no_space(path: str) -> Failed:
    return Failed(
        f"the disk of {path} has no room for the output of the command",
        remedy=f"free space on it: df {shlex.quote(os.path.dirname(path))}",
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
