"""Send an alert as JSON to a command's standard input. Only the hub's flag names the command, never a revision."""

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
                with suppress(ConnectionError):  # the command may close its input early
                    await process.communicate(msgspec.json.encode(alert) + b"\n")
                code = await process.wait()
        except TimeoutError:
            raise self._undelivered(f"it took longer than {self._send_s:.0f} s") from None
        finally:
            await ended(process)
        if code != 0:
            raise self._undelivered(f"exit code {code}")

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the alert command {self._argv[0]} failed: {why}",
            remedy="test it with a line of JSON on its standard input; then restart the hub with a working "
            "--alert-command",
            code="alert_undelivered",
        )


async def ended(process: asyncio.subprocess.Process) -> None:
    """Kill it and its children: the command leads its own session."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            _kill_group(process.pid)
        await process.wait()


def _kill_group(pid: int) -> None:
    import os
    import signal

    os.killpg(pid, signal.SIGKILL)
