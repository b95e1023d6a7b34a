"""A command inside a running container, by podman's own command line: for what is run through its REST interface podman
4.3 keeps two processes for five minutes each, and a health check runs every second."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence

from holdfast.adapters.runtime import process
from holdfast.errors import TryLater
from holdfast.ports.runtime import Finished

OUTPUT_BYTES_MAX = 64 * 1024
PIECE_BYTES = 16 * 1024
TIMED_OUT = 124  # the code of coreutils' timeout
MARK = "HOLDFAST_EXEC"  # a variable of the command, by which it and its children are found again


class Execution:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = [*command, "exec"]
        self._environ = dict(environ)

    async def run(self, id: str, words: Sequence[str], timeout_s: float) -> Finished:
        mark = f"{MARK}={os.urandom(8).hex()}"
        output = bytearray()
        child = await self._spawn([*self._command, "--env", mark, id, *words])
        try:
            code = await asyncio.wait_for(_followed(child, output), timeout_s)
        except TimeoutError:
            output += f"not done after {timeout_s:g} s, killed\n".encode()
            code = TIMED_OUT
        finally:
            if child.returncode is None:
                _end_inside(id, mark)
                child.kill()
                await asyncio.shield(child.wait())
        return Finished(code, output.decode("utf-8", errors="replace"))

    async def _spawn(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as trouble:
            raise TryLater(
                f"{words[0]}: {trouble.strerror}", remedy="apt install podman on the node", code="runtime_away"
            ) from trouble


async def _followed(child: asyncio.subprocess.Process, output: bytearray) -> int:
    """Only the end of what it says is kept."""
    assert child.stdout is not None
    while piece := await child.stdout.read(PIECE_BYTES):
        output += piece
        del output[:-OUTPUT_BYTES_MAX]
    return await child.wait()


def _end_inside(id: str, mark: str) -> None:
    """Podman's client is not the command: ending the one leaves the other. Twice, for what it started meanwhile."""
    for _ in range(2):
        for found in process.with_variable(mark):
            if process.belongs(found, id):
                process.send(found, signal.SIGKILL)
