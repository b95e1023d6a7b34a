"""The node's Envoy process as the agent sees it: run by a supervisor that outlives the agent."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy import supervisor
from holdfast.adapters.runtime.process import Process, known, send
from holdfast.adapters.runtime.service import OURS

LOOK_S = 0.02
END_S = 8.0  # the supervisor gives Envoy three seconds, and then three more
WORDS_MAX = 300


class EnvoyProcess:
    def __init__(self, directory: str, environ: Mapping[str, str], supervise: bool) -> None:
        self._directory = directory
        self._environ = {key: value for key, value in environ.items() if key not in OURS}
        self._supervise = supervise
        self._child: subprocess.Popen[bytes] | None = None

    def envoy(self) -> Process | None:
        pid, started = supervisor.noted_start(self._path(supervisor.CHILD))
        return Process(pid, started) if pid else self._living(supervisor.running(self._directory))

    def supervised(self) -> bool:
        try:
            handle = os.open(self._path(supervisor.LOCK), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return bool(supervisor.watching(self._directory))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return bool(supervisor.watching(self._directory))  # the lock file may have been replaced

    async def ended(self, process: Process | None, at_most_s: float) -> None:
        """Wait until this Envoy ends or the time is over."""
        try:
            handle = os.pidfd_open(process.pid) if process is not None else None
        except OSError:
            return
        if handle is None:
            await asyncio.sleep(at_most_s)
            return
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(handle, over.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(at_most_s):
                    await over.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    def want(self, command: Sequence[str], socket: str) -> None:
        """Set the command that the supervisor runs. A running Envoy keeps its command until it ends."""
        wanted = json.dumps({"command": list(command), "sockets": [socket]}).encode()
        disk = PosixDisk()
        if disk.read(self._path(supervisor.RUN), 1 << 20) != wanted:
            disk.replace(self._path(supervisor.RUN), wanted)

    def keep(self) -> None:
        """Start a supervisor if there is none: it adopts a running Envoy or starts one."""
        if self._child is not None:
            self._child.poll()  # reaps it if it died
        if self.supervised() or not self._supervise:
            return
        with open(self._path(supervisor.LOG), "ab", opener=_private) as log:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", os.path.abspath(supervisor.__file__), self._directory],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # it outlives the agent and ignores Ctrl-C in the agent's terminal
            )

    async def end(self) -> None:
        """End supervisor and Envoy, even if another agent started them; afterwards none of them runs."""
        with suppress(OSError):
            os.unlink(self._path(supervisor.RUN))
        watching = self._living(supervisor.watching(self._directory))
        if watching is not None:
            send(watching, signal.SIGTERM)
            await self._gone(watching)
        envoy = self.envoy()  # it may have lost its supervisor
        if envoy is not None:
            send(envoy, signal.SIGTERM)
            await self._gone(envoy)
        if self._child is not None:
            self._child.poll()

    async def _gone(self, process: Process) -> None:
        for _ in range(int(END_S / LOOK_S)):
            if self._child is not None:
                self._child.poll()
            if known(process.pid) != process:
                return
            await asyncio.sleep(LOOK_S)
        send(process, signal.SIGKILL)

    # ---- its log

    def log_size(self) -> int:
        try:
            return os.path.getsize(self._path(supervisor.LOG))
        except OSError:
            return 0

    def log_since(self, offset: int) -> str:
        try:
            with open(self._path(supervisor.LOG), "rb") as file:
                file.seek(offset if offset <= self.log_size() else 0)
                return file.read(1 << 20).decode("utf-8", "replace")
        except OSError:
            return ""

    @staticmethod
    def _living(pid: int) -> Process | None:
        return known(pid) if pid else None

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def rejection(log: str) -> str:
    """Envoy's reason for refusing a file; "" if it refused none."""
    for line in log.splitlines():
        for mark in ("config update rejected: ", "config update failure: "):
            if mark in line:
                return line.partition(mark)[2][:WORDS_MAX].strip()
    return ""
