"""Processes as /proc shows them: find those of a lab, and end them."""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress

from msgspec import Struct

from holdfast.errors import Failed
from holdfast.lab import mounts

KINDS = ("net", "mnt", "pid")
NODE_MARK = "HOLDFAST_LAB_NODE"  # in the environment of every process in a node, beside the lab's own mark
END_S_MAX = 10.0
BURIAL_S = 0.5


class Known(Struct, frozen=True):
    """A pid alone may be reused; with the start time it is unique."""

    pid: int
    started: int


def known(pid: int) -> Known | None:
    """None if there is no such process, or it is a zombie: the machine's init may reap it late."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else Known(pid, int(fields[19]))


def lives(process: Known | None) -> bool:
    return process is not None and known(process.pid) == process


def all_pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name)


def namespace(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def environment(pid: int) -> set[str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return set(file.read().decode(errors="replace").split("\0"))
    except OSError:
        return set()


def members(mark: str, node_mark: str | None, folder: str) -> list[int]:
    """Processes with the lab's mark (and the node's, if given), with a mount from its folder, or in their namespaces.

    The mounts find unmarked processes in namespaces that have no marked process any more.
    """
    living = [pid for pid in all_pids() if pid != os.getpid() and known(pid) is not None]
    marked = {pid for pid in living if {mark, node_mark or mark} <= environment(pid)}
    inside = {pid for pid in marked if any(word.startswith(f"{NODE_MARK}=") for word in environment(pid))}
    inside |= _mounting(living, folder)
    with ExitStack() as held:
        theirs = spaces(inside, held)
        return [pid for pid in living if pid in marked or any(namespace(pid, kind) in theirs for kind in KINDS)]


def _mounting(living: list[int], folder: str) -> set[int]:
    device, root = mounts.origin(folder)
    here = {namespace(pid, "mnt") for pid in (os.getpid(), 1)}
    seen: dict[str, bool] = {}
    found = set()
    for pid in living:
        space = namespace(pid, "mnt")
        if space and space not in here:
            if space not in seen:
                seen[space] = mounts.shows(pid, device, root)
            if seen[space]:
                found.add(pid)
    return found


def spaces(pids: Iterable[int], held: ExitStack) -> set[str]:
    """Namespaces of nodes. A pid namespace counts only by its first process: others may be in the host's.

    They stay open until `held` is closed: the kernel gives the number of a namespace that is gone to the next one,
    and a process of another program in that next one must not be taken for a process of the node.
    """
    here = {namespace(pid, kind) for pid in (os.getpid(), 1) for kind in KINDS}
    found: set[str] = set()
    for pid in pids:
        for kind in ("net", "mnt", "pid") if _inner_pid(pid) == 1 else ("net", "mnt"):
            if namespace(pid, kind) not in found | here:
                found |= _opened(pid, kind, held) - here
    return found


def _opened(pid: int, kind: str, held: ExitStack) -> set[str]:
    try:
        handle = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return set()
    held.callback(os.close, handle)
    return {os.readlink(f"/proc/self/fd/{handle}")}


def host_pid(pid: int, init: int) -> int | None:
    """The host's pid of the process with this pid in the pid namespace of `init`."""
    space = namespace(init, "pid")
    for candidate in all_pids():
        if namespace(candidate, "pid") == space and _inner_pid(candidate) == pid:
            return candidate
    return None


def by_program(names: Collection[str]) -> dict[str, dict[str, int]]:
    """For every pid namespace, the processes of these programs; of several, the one with the lowest pid."""
    found: dict[str, dict[str, int]] = {}
    for pid in sorted(all_pids(), reverse=True):
        name = _program(pid)
        if name in names and known(pid) is not None:
            found.setdefault(namespace(pid, "pid"), {})[name] = pid
    return found


def _program(pid: int) -> str:
    """The name of its executable file; "" for kernel threads and ended processes."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def _inner_pid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            line = next(line for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return None
    return int(line.split()[-1])


def children(pid: int) -> list[int]:
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


def end(found: Callable[[], list[int]]) -> list[Known]:
    """SIGKILL until no more are found, like a power cut. Returns those that were found."""
    ended: dict[int, Known] = {}
    give_up_s = time.monotonic() + END_S_MAX
    while left := found():
        if time.monotonic() > give_up_s:
            raise Failed(
                f"cannot end these processes: {' '.join(map(str, sorted(left)))}",
                remedy="inspect them with ps, remove what blocks them (a stuck disk?), then repeat the command",
                code="stuck",
            )
        ended |= {pid: process for pid in left if (process := known(pid)) is not None}
        # The first processes of nodes go before the parents that wait for them: reaped at once, they take their pid
        # namespace with them, which would otherwise last as long as the zombies.
        firsts = [pid for pid in left if _inner_pid(pid) == 1]
        _kill(firsts or left)
        await_burial([ended[pid] for pid in firsts if pid in ended], BURIAL_S)
        time.sleep(0.01)
    return list(ended.values())


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def await_burial(ended: list[Known], patience_s: float) -> None:
    """The machine's init reaps orphans, usually within two seconds; this waits for it."""
    wait_for(lambda: not any(_is_there(process.pid) for process in ended), patience_s)


def wait_for(true: Callable[[], bool], patience_s: float) -> bool:
    give_up_s = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.01)
    return True
