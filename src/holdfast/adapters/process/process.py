"""Processes as /proc shows them, identified by pid and start time.

A pid alone may be reused; with the start time it is unique, so that a signal reaches that process or none.
"""

import os
import signal
import time
from contextlib import suppress

from msgspec import Struct

STAT_BYTES = 4096  # more than 52 numbers and a name
CLOCK_S = 2.0  # tolerated difference between podman's and the kernel's start time


class Process(Struct, frozen=True):
    pid: int
    started: int  # clock ticks since boot


def known(pid: int) -> Process | None:
    """None if there is no such process, or it is a zombie, or the pid is 0."""
    if pid <= 0:
        return None
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # `open` would take six system calls more
        try:
            fields = os.read(handle, STAT_BYTES).rpartition(b")")[2].split()
        finally:
            os.close(handle)
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else Process(pid, int(fields[19]))


def of_container(id: str, pid: int, began_s: float) -> Process | None:
    """A container's first process, if the pid is still its own: by its control group, or (where podman may not create
    one) by its start time."""
    found = known(pid)
    if found is None:
        return None
    if belongs(found, id) or abs(started_s(found) - began_s) <= CLOCK_S:
        return found
    return None


def belongs(process: Process, container: str) -> bool:
    """Whether it runs in a control group of this container."""
    return container.encode() in _read(f"/proc/{process.pid}/cgroup") and known(process.pid) == process


def user_inside(pid: int) -> str:
    """`UID:GID` that a process runs as, by the numbers of its own user namespace; "0:0" if it has ended."""
    lines = [line.split() for line in _read(f"/proc/{pid}/status").splitlines()]
    ids = {words[0]: int(words[2]) for words in lines if words and words[0] in (b"Uid:", b"Gid:")}
    return ":".join(
        str(_inside(ids.get(name, 0), _read(f"/proc/{pid}/{file}")))
        for name, file in ((b"Uid:", "uid_map"), (b"Gid:", "gid_map"))
    )


def _inside(number: int, ranges: bytes) -> int:
    for line in ranges.splitlines():
        inner, outer, count = map(int, line.split())
        if outer <= number < outer + count:
            return inner + number - outer
    return number


def started_s(process: Process) -> float:
    """The wall-clock time of its start, by this machine's current clock."""
    for line in _read("/proc/stat").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1]) + process.started / os.sysconf("SC_CLK_TCK")
    return 0.0


def age_s(process: Process) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")


def arguments(pid: int) -> list[str]:
    return [os.fsdecode(word) for word in _read(f"/proc/{pid}/cmdline").split(b"\0")] if pid > 0 else []


def with_variable(setting: str) -> list[Process]:
    """All running processes with exactly this environment setting."""
    return _with("environ", setting)


def with_argument(word: str) -> list[Process]:
    """All running processes with exactly this argument."""
    return _with("cmdline", word)


def _with(file: str, word: str) -> list[Process]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    marked = [pid for pid in numbers if word.encode() in _read(f"/proc/{pid}/{file}").split(b"\0")]
    return [found for pid in marked if (found := known(pid)) is not None]


def send(process: Process, number: signal.Signals) -> bool:
    """False if it is gone or may not be signalled. Uses a pidfd, so that a process with a reused pid is safe."""
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
