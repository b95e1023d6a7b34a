"""Containers whose processes the kernel killed because their memory limit was reached.

Podman's own flag is not reliable: conmon 2.1.6 of Debian 12 writes it into another directory than podman reads. So the
kernel is asked: by a counter of the control group above (version 2), or else by its log.
"""

import os
import re
from contextlib import suppress

CGROUPS = "/sys/fs/cgroup"
LOG = "/dev/kmsg"
PROC = "/proc"
RECORD_BYTES = 8192  # the kernel gives one record for each read
RECORDS_MAX = 10_000
KILLED = 128 + 9

_KILLED = re.compile(rb"oom-kill:.*task_memcg=\S*libpod-([0-9a-f]{64})")
_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_SCOPE = re.compile(rb"^0::(/\S*?)/libpod-[0-9a-f]{64}", re.MULTILINE)


class OomKills:
    """Looks from its construction on."""

    def __init__(self, cgroups: str = CGROUPS, log: str = LOG) -> None:
        self._cgroups = cgroups
        self._counts: dict[str, int] = {}  # control group above containers → how many were killed below it
        self._above: dict[str, str] = {}  # id → control group above it
        self._killed: set[str] = set()
        self._log = _at_its_end(log)

    def follow(self, id: str, pid: int) -> None:
        """A container runs."""
        with suppress(OSError), open(f"{PROC}/{pid}/cgroup", "rb") as file:
            found = _SCOPE.search(file.read())
            if found is not None:
                above = os.fsdecode(found[1])
                self._above[id] = above
                self._counts.setdefault(above, self._count(above))

    def killed(self, id: str, code: int) -> bool:
        """A process of it ended with this code: whether because of its memory. Told once for each end. The counter does
        not name the container, so that it counts only for one that was killed."""
        above = self._above.get(id)
        if above is not None and code == KILLED:
            count, before = self._count(above), self._counts[above]
            self._counts[above] = max(count, before)
            if count > before:
                return True
        self._read_log()
        is_killed = id in self._killed
        self._killed.discard(id)
        return is_killed

    def forget(self, id: str) -> None:
        self._above.pop(id, None)
        self._killed.discard(id)

    def close(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _count(self, above: str) -> int:
        with suppress(OSError), open(f"{self._cgroups}{above}/memory.events", "rb") as file:
            found = _COUNT.search(file.read())
            return int(found[1]) if found is not None else 0
        return 0

    def _read_log(self) -> None:
        for _ in range(RECORDS_MAX if self._log is not None else 0):
            try:
                record = os.read(self._log, RECORD_BYTES)  # type: ignore[arg-type]
            except BrokenPipeError:  # records were overwritten before they were read
                continue
            except OSError:
                return
            found = _KILLED.search(record)
            if found is not None:
                self._killed.add(found[1].decode("ascii"))


def _at_its_end(path: str) -> int | None:
    """None if this process may not read it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(handle, 0, os.SEEK_END)
    return handle
