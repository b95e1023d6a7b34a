"""Processes as /proc tells of them. A number alone may be somebody else's by now; with the moment of its start it
cannot, and a signal reaches that process or nobody."""

import os
import signal
from contextlib import suppress

from msgspec import Struct

CLOCK_S = 2.0  # how far podman's word and the kernel's may lie apart for one start


class Process(Struct, frozen=True):
    pid: int
    started: int  # clock ticks since boot


def known(pid: int) -> Process | None:
    """None if there is no such process, or only its corpse (a zombie), or it is no process at all (0)."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else Process(pid, int(fields[19]))


def of_container(id: str, pid: int, began_s: float) -> Process | None:
    """A container's first process, if that number is still its own: by its control group, or (where podman may make
    none) by the moment of its start."""
    found = known(pid)
    if found is None:
        return None
    if belongs(found, id) or abs(started_s(found) - began_s) <= CLOCK_S:
        return found
    return None


def belongs(process: Process, container: str) -> bool:
    """Whether it runs in a control group of that container."""
    return container.encode() in _read(f"/proc/{process.pid}/cgroup") and known(process.pid) == process


def started_s(process: Process) -> float:
    """The wall clock at its start, as this machine's clock counts today."""
    for line in _read("/proc/stat").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1]) + process.started / os.sysconf("SC_CLK_TCK")
    return 0.0


def arguments(pid: int) -> list[str]:
    return [os.fsdecode(word) for word in _read(f"/proc/{pid}/cmdline").split(b"\0")] if pid > 0 else []


def with_variable(setting: str) -> list[Process]:
    """Everybody living whose environment has exactly this setting."""
    return _with("environ", setting)


def with_argument(word: str) -> list[Process]:
    """Everybody living who was started with exactly this word among others."""
    return _with("cmdline", word)


def _with(file: str, word: str) -> list[Process]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    marked = [pid for pid in numbers if word.encode() in _read(f"/proc/{pid}/{file}").split(b"\0")]
    return [found for pid in marked if (found := known(pid)) is not None]


def send(process: Process, number: signal.Signals) -> bool:
    """False if it is gone or not ours to signal. Held by a handle first, so that no newcomer with its number is hit."""
    if process.pid <= 1:
        return False
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            if known(process.pid) == process:
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
