"""Run a command inside a container with podman's command line.

The REST interface of podman 4.3 keeps two processes alive for five minutes per command; health checks run every second.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from holdfast.adapters.process import process
from holdfast.adapters.runtime.podman.inside import Inside
from holdfast.errors import TryLater
from holdfast.ports.runtime import Finished

OUTPUT_BYTES_MAX = 64 * 1024
PIECE_BYTES = 16 * 1024
TIMED_OUT = 124  # the code of coreutils' timeout
MARK = "HOLDFAST_EXEC"  # an environment variable that identifies the command and its children


class Execution:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = [*command, "exec"]
        self._environ = dict(environ)

    async def run(self, id: str, words: Sequence[str], timeout_s: float) -> Finished:
        mark = f"{MARK}={os.urandom(8).hex()}"
        output = bytearray()
        child = await self._spawn([*self._command, "--env", mark, id, *words])
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
        child = await self._spawn([*self._command, "--interactive", "--env", mark, id, *words], is_piped=True)
        try:
            yield Inside(child)
        finally:
            if child.returncode is None:
                _end_inside(id, mark)
                child.kill()
                await asyncio.shield(child.wait())

    async def _spawn(self, words: Sequence[str], is_piped: bool = False) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE if is_piped else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL if is_piped else asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as trouble:
            raise TryLater(
                f"cannot start {words[0]}: {trouble.strerror}",
                remedy="on the node: apt install podman",
                code="runtime_away",
            ) from trouble


async def _followed(child: asyncio.subprocess.Process, output: bytearray) -> int:
    """Keeps only the end of the output."""
    assert child.stdout is not None
    while piece := await child.stdout.read(PIECE_BYTES):
        output += piece
        del output[:-OUTPUT_BYTES_MAX]
    return await child.wait()


def _end_inside(id: str, mark: str) -> None:
    """Killing podman's client does not end the command inside. Twice, for children that it started meanwhile."""
    for _ in range(2):
        for found in process.with_variable(mark):
            if process.belongs(found, id):
                process.send(found, signal.SIGKILL)
