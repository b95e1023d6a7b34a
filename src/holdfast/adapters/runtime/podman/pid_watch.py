"""Watches processes for their end: one kernel handle each, all asked with one system call. Sends no signal."""

import os
import select
from collections.abc import Collection
from contextlib import suppress

from holdfast.adapters.process import process
from holdfast.adapters.process.process import Process

WATCHED_MAX = 256  # handles; an agent may have 1,024 open files, and needs most of them for connections


class PidWatch:
    """A process without a handle (too many, none left, an old kernel) is looked up in /proc each time."""

    def __init__(self) -> None:
        self._ends = select.epoll()
        self._wanted: Collection[Process] = ()
        self._handles: dict[Process, int] = {}
        self._unwatched: set[Process] = set()

    def follow(self, processes: Collection[Process]) -> None:
        """Exactly these from now on. A handle is opened first and the process looked up after that: a process that
        only has the same number is never taken for it."""
        if processes == self._wanted:  # as every second of an idle agent
            return
        self._wanted, wanted = processes, set(processes)
        for gone in self._handles.keys() - wanted:
            self._close(self._handles.pop(gone))
        self._unwatched &= wanted
        for new in wanted - self._handles.keys() - self._unwatched:
            if len(self._handles) >= WATCHED_MAX or not self._open(new):
                self._unwatched.add(new)

    def _open(self, new: Process) -> bool:
        try:
            handle = os.pidfd_open(new.pid)
        except OSError:
            return False
        if process.known(new.pid) == new:
            with suppress(OSError):  # the limit of watches of this user
                self._ends.register(handle, select.EPOLLIN)
                self._handles[new] = handle
                return True
        os.close(handle)
        return False

    def any_gone(self) -> bool:
        """Whether one of them has ended; a zombie has."""
        if self._ends.poll(0, 1):
            return True
        return any(process.known(one.pid) != one for one in self._unwatched)

    def close(self) -> None:
        for handle in self._handles.values():
            self._close(handle)
        self._handles.clear()
        self._ends.close()

    def _close(self, handle: int) -> None:
        with suppress(OSError):
            self._ends.unregister(handle)
        os.close(handle)
