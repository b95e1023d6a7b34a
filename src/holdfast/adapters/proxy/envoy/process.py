"""The node's Envoy process as the agent sees it: run by a supervisor that outlives the agent."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.process import kept
from holdfast.adapters.process.process import Process, known
from holdfast.adapters.proxy.envoy import supervisor

ASSERTION = "[critical][assert]"
END_S = 8.0  # the supervisor gives Envoy three seconds, and then three more


class EnvoyProcess:
    def __init__(self, directory: str, environ: Mapping[str, str], supervise: bool) -> None:
        self._directory = directory
        self._environ = environ
        self._supervise = supervise
        self._child: subprocess.Popen[bytes] | None = None
        self._envoy: Process | None = None

    def envoy(self) -> Process | None:
        """A process that was recognised once is the same one until it ends."""
        if self._envoy is None or known(self._envoy.pid) != self._envoy:
            self._envoy = known(supervisor.noted(self._path(supervisor.CHILD)) or supervisor.running(self._directory))
        return self._envoy

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

    def is_deaf(self, socket: str) -> bool:
        """It watches folders that were deleted or replaced since its start, so it sees no more changes (X08)."""
        envoy = self.envoy()
        found = supervisor.watched(socket, envoy.pid, envoy.started) if envoy is not None else None
        return found is not None and found != supervisor.identities(self._directory)

    async def ended(self, process: Process | None, at_most_s: float) -> bool:
        """Wait until this Envoy ends or the time is over; returns whether it ended."""
        if process is not None:
            return await kept.ended(process, at_most_s)
        await asyncio.sleep(at_most_s)
        return False

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
        command = [sys.executable, "-I", "-S", os.path.abspath(supervisor.__file__), self._directory]
        self._child = kept.spawn(command, self._environ, self._path(supervisor.LOG))

    async def end(self) -> None:
        """End supervisor and Envoy, even if another agent started them; afterwards none of them runs."""
        with suppress(OSError):
            os.unlink(self._path(supervisor.RUN))
        if (watching := known(supervisor.watching(self._directory))) is not None:
            await kept.end(watching, END_S)
        if (envoy := self.envoy()) is not None:  # it may have lost its supervisor
            await kept.end(envoy, END_S)
        if self._child is not None:
            self._child.poll()

    def clear(self, socket: str) -> None:
        """What an Envoy leaves beside its socket if it was killed together with its supervisor."""
        for path in (socket, supervisor.watched_file(socket)):
            with suppress(OSError):
                os.unlink(path)

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

    def last_words(self, offset: int) -> str:
        log = self.log_since(offset)
        return abort(log) or log[-kept.WORDS_MAX :].strip()

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def rejection(log: str) -> str:
    """Envoy's reason for refusing a file; "" if it refused none."""
    for line in log.splitlines():
        for mark in ("config update rejected: ", "config update failure: "):
            if mark in line:
                return line.partition(mark)[2][: kept.WORDS_MAX].strip()
    return ""


def abort(log: str) -> str:
    """Why Envoy aborted; "" if it did not. What it writes last then is a list of addresses."""
    found = (line for line in log.splitlines() if ASSERTION in line)
    return next((line.rpartition("] ")[2][: kept.WORDS_MAX].strip() for line in found), "")
