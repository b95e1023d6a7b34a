"""A process that outlives the agent: started apart from it, and found again by a file with its pid and start time.

Agents of earlier releases read and wrote the same file. An agent that is killed may not have written it: then the
process is found by its command line. Never signals a process that only has the same pid.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.adapters.process.process import Process, arguments, known, send, with_argument

KILL_S = 10.0
WORDS_MAX = 300
# Meant only for the agent: with these podman would report a container to systemd as the unit's main process.
OURS = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID")


class Kept:
    """`path`: what the process is started for (its socket or configuration); its files are beside it. `words`: the
    part of its command line by which it is recognised; the last one contains the path."""

    def __init__(self, path: str, program: str, *words: str) -> None:
        self.log = f"{path}.log"
        self._program = os.path.basename(program)
        self._words = words
        self._note = f"{path}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Raises OSError if the program cannot be started."""
        with suppress(OSError):
            os.truncate(self.log, 0)
        self._child = spawn(command, environ, self.log)
        process = self.child()
        if process is not None:
            with suppress(OSError):  # of a full disk: this agent knows its child without it
                with open(f"{self._note}.new", "w", encoding="ascii") as file:
                    file.write(f"{process.pid} {process.started}\n")
                os.replace(f"{self._note}.new", self._note)

    def child(self) -> Process | None:
        """The process that this agent started, while it runs."""
        if self._child is not None and self._child.poll() is None:
            return known(self._child.pid)
        self._child = None
        return None

    def found(self) -> list[Process]:
        """All that run, also those of an earlier agent. More than one only if another program interfered, or if an
        agent was killed before it wrote the file."""
        if (child := self.child()) is not None:
            return [child]
        found = noted(self._note)
        if found is not None and set(self._words) <= set(arguments(found.pid)):
            return [found]
        return [one for one in with_argument(self._words[-1]) if self._is_ours(one)]

    def _is_ours(self, process: Process) -> bool:
        """Nodes on one machine may see different files under one path: the mount namespace must be ours."""
        said = arguments(process.pid)
        named = bool(said) and os.path.basename(said[0]) == self._program and set(self._words) <= set(said)
        try:
            here = os.stat(f"/proc/{process.pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
        except OSError:
            return False
        return named and here and known(process.pid) == process

    def last_words(self) -> str:
        with suppress(OSError), open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-WORDS_MAX:].strip()
        return ""

    def forget(self) -> None:
        for path in (self._note, self.log):
            with suppress(OSError):
                os.unlink(path)


def spawn(command: Sequence[str], environ: Mapping[str, str], log: str) -> "subprocess.Popen[bytes]":
    with open(log, "ab", opener=_private) as output:
        return subprocess.Popen(
            command,
            env={key: value for key, value in environ.items() if key not in OURS},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives the agent and ignores Ctrl-C in the agent's terminal
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def noted(path: str) -> Process | None:
    """The process of that file, while it runs."""
    try:
        with open(path, encoding="ascii") as file:
            pid, started = map(int, file.read(64).split())
    except (OSError, ValueError):
        return None
    return process if (process := known(pid)) == Process(pid, started) else None


async def end(process: Process, within_s: float, number: signal.Signals = signal.SIGTERM) -> bool:
    """Send the signal, and SIGKILL if that does not end it in time; returns whether it is gone."""
    for one, wait_s in ((number, within_s), (signal.SIGKILL, KILL_S)):
        if not send(process, one) or await ended(process, wait_s):
            break
    return known(process.pid) != process


async def ended(process: Process, within_s: float) -> bool:
    """Wait until it ends or the time is over; returns whether it is gone. A zombie is gone."""
    with suppress(OSError):  # there is no such process; TimeoutError is one too
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        handle = os.pidfd_open(process.pid)
        loop.add_reader(handle, over.set)
        try:
            async with asyncio.timeout(within_s if known(process.pid) == process else 0):
                await over.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
    return known(process.pid) != process
