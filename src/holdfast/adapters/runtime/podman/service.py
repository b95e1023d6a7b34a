"""The agent's podman service: use a running one, restart a dead one, never two at one socket.

It may outlive a killed agent: the next agent finds it at the same socket and uses it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.adapters.process import kept
from holdfast.adapters.process.kept import Kept
from holdfast.adapters.process.process import age_s

READY_S = 5.0
LOOK_S = 0.02
START_S_MAX = 30.0  # of a busy machine
END_S = 5.0


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
        self._environ = environ
        self.last_words = ""  # why it did not start
        self._kept = Kept(socket, command[0], "system", "service", f"unix://{socket}")
        self._turn = asyncio.Lock()

    async def revive(self) -> bool:
        """Whether the service answers now. Concurrent callers wait for one start."""
        async with self._turn:
            if await self._answers() or (self._kept.found() and await self._ready()):
                return True
            for deaf in self._kept.found():
                if age_s(deaf) < START_S_MAX:
                    self.last_words = "it has not answered yet"
                    return False
                await kept.end(deaf, END_S)  # its socket is gone, or it hangs: two must not run
            try:
                self._start()
            except OSError as trouble:
                self.last_words = f"{self._command[0]}: {trouble.strerror}"
                return False
            if await self._ready():
                return True
            self.last_words = self._kept.last_words()
            return False

    async def _ready(self) -> bool:
        """Wait until it answers: it may have been started a moment ago, perhaps by an agent that was killed then."""
        for _ in range(int(READY_S / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            if await self._answers():
                return True
            if not self._kept.found():
                return False
        return False

    def _start(self) -> None:
        os.makedirs(os.path.dirname(self._socket), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(self._socket)  # no process listens there any more
        self._kept.start(self._command, self._environ)

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
        processes = self._kept.found()
        if not processes:  # not started by an agent, or not running
            return
        for process in processes:
            await kept.end(process, END_S)
        self._kept.child()  # reaps it
        self._kept.forget()
        with suppress(OSError):
            os.unlink(self._socket)
