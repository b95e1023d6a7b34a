"""The directory that an archive is unpacked into: things are made relative to handles, never through a symlink.

It is empty and closed to all others until the end; symlinks come last, so that none is there while files are made.
"""

import base64
import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.adapters.walking import walk
from holdfast.model.archive import Entry, damaged, names_of, spoken

HANDLES_MAX = 64
EARLY_S = 0.3  # between two flushes while it is being filled
_OF_THE_MACHINE = frozenset({"security.selinux"})  # a label that its own policy gives to new files
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_libc = ctypes.CDLL(None, use_errno=True)


class Target:
    def __init__(self, top: int, part_bytes: int) -> None:
        self._top, self._part_bytes = top, part_bytes
        self._local = threading.local()
        self._all: list[OrderedDict[tuple[bytes, ...], int]] = []
        self._me = os.geteuid(), os.getegid()
        os.umask(0)

    def close(self) -> None:
        for handles in self._all:
            for handle in handles.values():
                os.close(handle)
            handles.clear()

    # ---- making

    def directory(self, entry: Entry) -> None:
        above, name = self._place(entry)
        os.mkdir(name, 0o700, dir_fd=above)

    def put(self, entry: Entry, number: int, content: memoryview) -> None:
        """A whole file, or a part of a long one."""
        if number < 0:
            self.file(entry, content)
        else:
            self.part(entry, number, content)

    def file(self, entry: Entry, content: memoryview) -> None:
        above, name = self._place(entry)
        file = os.open(name, _MAKE, entry.mode & 0o777, dir_fd=above)
        try:
            if entry.data:
                os.ftruncate(file, entry.size)
                write_data(file, entry, 0, content)
            else:
                _write(file, content, 0)
            self._dress(file, entry)
        finally:
            os.close(file)

    def long_file(self, entry: Entry) -> None:
        """Its parts follow."""
        above, name = self._place(entry)
        file = os.open(name, _MAKE, 0o600, dir_fd=above)
        try:
            os.ftruncate(file, entry.size)
        finally:
            os.close(file)

    def part(self, entry: Entry, number: int, content: memoryview) -> None:
        above, name = self._place(entry)
        file = os.open(name, _WRITE, dir_fd=above)
        try:
            write_data(file, entry, number * self._part_bytes, content)
        finally:
            os.close(file)

    def dress_long(self, entry: Entry) -> None:
        above, name = self._place(entry)
        file = os.open(name, _WRITE, dir_fd=above)
        try:
            os.fchmod(file, entry.mode & 0o777)
            self._dress(file, entry)
        finally:
            os.close(file)

    def symlink(self, entry: Entry) -> None:
        above, name = self._place(entry)
        os.symlink(spoken(entry.target), name, dir_fd=above)
        os.chown(name, entry.uid, entry.gid, dir_fd=above, follow_symlinks=False)
        for key, value in entry.xattrs.items():
            if key not in _OF_THE_MACHINE:
                path = b"/proc/self/fd/%d/%s" % (above, name)
                os.setxattr(path, spoken(key), base64.b64decode(value), follow_symlinks=False)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=above, follow_symlinks=False)

    def link(self, entry: Entry) -> None:
        """To a file that was made before."""
        above, name = self._place(entry)
        first = spoken(entry.link)
        try:
            there, first_name = self._handle(tuple(names_of(first)[:-1])), first.rpartition(b"/")[2]
            os.link(first_name, name, src_dir_fd=there, dst_dir_fd=above, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            raise damaged(f"{entry.path[:80]!r} is a link to a file that the archive does not have") from None

    def dress_directory(self, entry: Entry) -> None:
        """After everything was made: that changed the times of directories; this changes no other's."""
        names = tuple(names_of(spoken(entry.path))) if entry.path else ()
        handle = os.open(".", _READ | os.O_DIRECTORY, dir_fd=self._handle(names))
        try:
            os.fchmod(handle, entry.mode & 0o777)
            self._dress(handle, entry)
        finally:
            os.close(handle)

    @contextmanager
    def flushed(self) -> Iterator[None]:
        """What is made in it is on the disk afterwards. The kernel begins to write meanwhile, and tells a trouble
        once."""
        over, troubles = threading.Event(), list[OSError]()

        def early() -> None:
            while not troubles and not over.wait(EARLY_S):
                try:
                    self.flush()
                except OSError as trouble:
                    troubles.append(trouble)

        thread = threading.Thread(target=early, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if troubles:
            raise troubles[0]
        self.flush()

    def flush(self) -> None:
        if _libc.syncfs(self._top):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    # ---- handles

    def _place(self, entry: Entry) -> tuple[int, bytes]:
        path = spoken(entry.path)
        above, _, name = path.rpartition(b"/")
        return self._handle(tuple(above.split(b"/")) if above else ()), name

    def _handle(self, names: tuple[bytes, ...]) -> int:
        """Of a directory, from the nearest one that this thread has open. Each step opens one name and follows no
        link."""
        if not names:
            return self._top
        handles = self._handles()
        if (found := handles.get(names)) is not None:
            handles.move_to_end(names)
            return found
        length = len(names) - 1
        while length and names[:length] not in handles:
            length -= 1
        above = handles[names[:length]] if length else self._top
        here = os.dup(above)
        for name in names[length:]:
            below = walk.opened(os.fsdecode(name), here)
            os.close(here)
            here = below
        handles[names] = here
        if len(handles) > HANDLES_MAX:
            os.close(handles.popitem(last=False)[1])
        return here

    def _handles(self) -> "OrderedDict[tuple[bytes, ...], int]":
        if not hasattr(self._local, "handles"):
            self._local.handles = OrderedDict()
            self._all.append(self._local.handles)
        handles: OrderedDict[tuple[bytes, ...], int] = self._local.handles
        return handles

    def _dress(self, file: int, entry: Entry) -> None:
        """Owner first: changing the owner clears set-uid bits and capabilities."""
        if (entry.uid, entry.gid) != self._me:
            os.fchown(file, entry.uid, entry.gid)
        if entry.mode & 0o7000:
            os.fchmod(file, entry.mode)
        for key, value in entry.xattrs.items():
            if key not in _OF_THE_MACHINE:
                os.setxattr(file, spoken(key), base64.b64decode(value))
        os.utime(file, ns=(entry.mtime_ns, entry.mtime_ns))


def write_data(file: int, entry: Entry, begin: int, content: memoryview) -> None:
    """What is in no hole; what is in one must be zero."""
    if not entry.data:
        _write(file, content, begin)
        return
    end, done = begin + len(content), begin
    for at, length in entry.data:
        first, last = max(at, begin), min(at + length, end)
        if first >= last:
            continue
        _check_zero(entry, content[done - begin : first - begin])
        _write(file, content[first - begin : last - begin], first)
        done = last
    _check_zero(entry, content[done - begin :])


def _check_zero(entry: Entry, content: memoryview) -> None:
    if bytes(content).strip(b"\0"):
        raise damaged(f"{entry.path[:80]!r} has content in its holes")


def _write(file: int, content: memoryview, at: int) -> None:
    while len(content):
        done = os.pwrite(file, content, at)
        content, at = content[done:], at + done
