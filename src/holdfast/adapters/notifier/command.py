"""An alert as JSON on the standard input of a command, which is named by the hub's own flag, never by a revision."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from holdfast.errors import TryLater
from holdfast.model.alert import Alert

SEND_S = 30.0


class CommandNotifier:
    name = "command"

    def __init__(self, argv: Sequence[str], send_s: float = SEND_S) -> None:
        self._argv = tuple(argv)
        self._send_s = send_s

    async def send(self, alert: Alert) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as trouble:
            raise self._undelivered(f"it cannot be started: {trouble}") from trouble
        try:
            async with asyncio.timeout(self._send_s):
                with suppress(ConnectionError):  # it need not read all of it
                    await process.communicate(msgspec.json.encode(alert) + b"\n")
                code = await process.wait()
        except TimeoutError:
            raise self._undelivered(f"it took longer than {self._send_s:.0f} s") from None
        finally:
            await _ended(process)
        if code != 0:
            raise self._undelivered(f"it ended with {code}")

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the alert command {self._argv[0]} did not work: {why}",
            remedy="run it by hand with a line of JSON on its input; then start the hub with a better --alert-command",
            code="alert_undelivered",
        )


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Nothing of it stays behind, children included: it leads a session of its own."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            _kill_group(process.pid)
        await process.wait()


def _kill_group(pid: int) -> None:
    import os
    import signal

    os.killpg(pid, signal.SIGKILL)
