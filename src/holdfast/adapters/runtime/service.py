"""The agent's podman service: use a running one, restart a dead one, never two at one socket.

It may outlive a killed agent: the next agent finds it at the same socket and uses it.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.adapters.runtime.process import Process, known, send

READY_S = 5.0
LOOK_S = 0.02
END_S = 5.0
WORDS_MAX = 300
# Meant only for the agent: with these podman would report a container to systemd as the unit's main process.
OURS = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID")


class Foreign:
    """An external service (systemd's podman.socket): we wait for its return and do not start it."""

    last_words = ""

    async def revive(self) -> bool:
        return False

    async def close(self) -> None:
        return None


class Service:
    def __init__(self, socket: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._socket = socket
        self._command = [*command, "system", "service", "--time=0", f"unix://{socket}"]
        self._environ = {key: value for key, value in environ.items() if key not in OURS}
        self.last_words = ""  # why it did not start
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    async def revive(self) -> bool:
        """Whether the service answers now. Concurrent callers wait for one start."""
        async with self._turn:
            if await self._answers():
                return True
            self.last_words = ""
            self._start()
            for _ in range(int(READY_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                if await self._answers():
                    return True
                if self._child is None or self._child.poll() is not None:
                    break
            self._read_log()
            return False

    def _start(self) -> None:
        self._bury()
        os.makedirs(os.path.dirname(self._socket), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(self._socket)  # no process listens there any more
        try:
            with open(self._log, "wb") as log:
                self._child = subprocess.Popen(
                    self._command,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C in the agent's terminal must not reach it
                )
        except OSError as trouble:
            self._child, self.last_words = None, f"{self._command[0]}: {trouble.strerror}"
            return
        self._note(known(self._child.pid))

    def _read_log(self) -> None:
        with suppress(OSError), open(self._log, encoding="utf-8", errors="replace") as log:
            self.last_words = self.last_words or log.read()[-WORDS_MAX:].strip()

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_unix_connection(self._socket)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    async def close(self) -> None:
        """End the service at our socket, even if an earlier agent started it. Containers have their own supervisors."""
        process = self._noted()
        if process is None:  # not started by an agent, or not running
            return
        send(process, signal.SIGTERM)
        for _ in range(int(END_S / LOOK_S)):
            if self._bury() or known(process.pid) != process:
                break
            await asyncio.sleep(LOOK_S)
        else:
            send(process, signal.SIGKILL)
        for path in (self._socket, self._file, self._log):
            with suppress(OSError):
                os.unlink(path)

    def _bury(self) -> bool:
        return self._child is not None and self._child.poll() is not None

    @property
    def _log(self) -> str:
        return f"{self._socket}.log"

    @property
    def _file(self) -> str:
        return f"{self._socket}.pid"

    def _note(self, process: Process | None) -> None:
        if process is not None:
            with open(self._file, "w", encoding="ascii") as file:
                file.write(f"{process.pid} {process.started}\n")

    def _noted(self) -> Process | None:
        try:
            with open(self._file, encoding="ascii") as file:
                pid, started = map(int, file.read().split())
        except (OSError, ValueError):
            return None
        process = known(pid)
        return process if process == Process(pid, started) else None
