"""Bring a directory to the state of a tree of files: complete, with metadata, and flushed to disk.

Names are opened relative to handles and never through a symlink, because containers wrote the source. A second pass
over the same directory writes only what changed since the first (stamps.py, blocks.py). Hard links inside the tree are
preserved. A file that is the same as in an earlier copy is shared with that copy, never with the source.
"""

import os
import stat
import time
from collections.abc import Collection
from contextlib import suppress

from msgspec import Struct

from holdfast.adapters.storage import blocks, stamps, tree

LEFT_OUT_MAX = 20  # names that are reported
FLUSHED_MAX = 16  # more files than that are flushed with the whole file system
SHARED_MAX_BYTES = 64 << 20  # a bigger file is shared only if it is old: to copy all of it while nothing runs is slow
OLD_NS = 7 * 24 * 3600 * 10**9
_PATH_MAX = 4000
_WRITE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class Copied(Struct, frozen=True):
    size_bytes: int
    left_out: tuple[str, ...]
    files: int = 0
    written_bytes: int = 0


class Earlier(Struct, frozen=True):
    """A complete copy whose files may be shared."""

    top: int
    stamps: frozenset[bytes]


class Way(Struct, frozen=True):
    """`moving`: programs write into the source meanwhile, and another pass follows. `without`: directories at the top
    that are not copied."""

    moving: bool = False
    without: frozenset[str] = frozenset()
    earlier: Earlier | None = None
    tell: blocks.Tell = lambda moved_bytes: None


def copy(source: int, target: int) -> None:
    """All of it, into an empty directory; nothing is shared."""
    update(source, target, stamps.NONE, Way())


def update(source: int, target: int, known: Collection[bytes], way: Way) -> tuple[Copied, set[bytes]]:
    """`known` are the stamps of what `target` has already; answers those that it has now."""
    copying = _Copying(target, known, way)
    return copying.run(source), copying.stamps


class _Copying:
    """`there` is the directory being filled, always the counterpart of the walk's current directory."""

    def __init__(self, target: int, known: Collection[bytes], way: Way) -> None:
        self._top, self._there = target, os.dup(target)
        self._known, self._way = known, way
        self._began_ns = time.time_ns()
        self._path: list[str] = []
        self._inside: list[_Inside] = [_Inside(set())]
        self._links: dict[tuple[int, int], tuple[str, bool]] = {}  # several names → path of the first, has a stamp
        self._size_bytes = self._files = self._written_bytes = self._changed = 0
        self._left_out: list[str] = []
        self._unflushed: list[int] = []
        self.stamps: set[bytes] = set()

    def run(self, source: int) -> Copied:
        try:
            for visit in tree.walk(source, self._way.without):
                self._follow(visit)
            if self._way.moving or self._changed > FLUSHED_MAX:
                blocks.flush_all(self._top)
            else:
                for file in self._unflushed:
                    os.fsync(file)
        finally:
            for file in (self._there, *self._unflushed):
                os.close(file)
        return Copied(self._size_bytes, tuple(self._left_out[:LEFT_OUT_MAX]), self._files, self._written_bytes)

    def _follow(self, visit: tree.Visit) -> None:
        if visit.kind == "enter":
            self._inside[-1].names.add(visit.name)
            self._enter(visit.name)
        elif visit.kind == "leave":
            self._leave(visit)
        else:
            self._inside[-1].names.add(visit.name)
            try:
                self._entry(visit)
            except FileNotFoundError:  # it vanished meanwhile
                self._drop(visit.name)

    # ---- directories

    def _enter(self, name: str) -> None:
        if not tree.exists(self._there, name) or not tree.is_directory(self._there, name):
            self._drop(name)
            os.mkdir(name, 0o700, dir_fd=self._there)
            self._touched()
        self._step(name)
        self._path.append(name)
        self._inside.append(_Inside(set()))

    def _leave(self, visit: tree.Visit) -> None:
        """Dressed last: filling it changed its mtime."""
        path, inside = "/".join(self._path), self._inside[-1]
        stamp = stamps.stamp(path, visit.about)
        if stamp not in self._known or inside.is_touched:
            for name in set(os.listdir(self._there)) - inside.names:
                self._drop(name)
            _dress(self._there, visit.here, visit.about)
            self._flush(self._there)
        self._note(stamp, visit.about)
        if self._path:
            self._path.pop()
            self._inside.pop()
            self._step("..")

    def _step(self, name: str) -> None:
        there = tree.opened(name, self._there)
        os.close(self._there)
        self._there = there

    def _drop(self, name: str) -> None:
        """What the copy has under this name from an earlier pass."""
        if not tree.exists(self._there, name):
            return
        self._touched()
        drop_copied(name, self._there)

    def _touched(self) -> None:
        self._inside[-1].is_touched = True

    # ---- entries

    def _entry(self, visit: tree.Visit) -> None:
        name, about, path = visit.name, visit.about, "/".join([*self._path, visit.name])
        stamp = stamps.stamp(path, about)
        is_file = stat.S_ISREG(about.st_mode)
        if is_file and (about.st_dev, about.st_ino) in self._links:
            self._link_inside(visit, stamp)
            return
        if is_file:
            self._size_bytes += about.st_size
            self._files += 1
        if stamp in self._known:
            self.stamps.add(stamp)
            self._note_links(visit, path, True)
        elif is_file:
            self._file(visit, path, stamp)
        elif stat.S_ISLNK(about.st_mode):
            self._drop(name)
            os.symlink(tree.link_text(name, visit.here), name, dir_fd=self._there)
            self._name_only(visit, stamp)
        elif stat.S_ISFIFO(about.st_mode):
            self._drop(name)
            os.mkfifo(name, 0o600, dir_fd=self._there)
            os.chmod(name, stat.S_IMODE(about.st_mode), dir_fd=self._there)
            self._name_only(visit, stamp)
        else:
            self._drop(name)
            self._left_out.append(tree.shown(path))

    def _name_only(self, visit: tree.Visit, stamp: bytes) -> None:
        self._touched()
        about = visit.about
        os.chown(visit.name, about.st_uid, about.st_gid, dir_fd=self._there, follow_symlinks=False)
        times = (about.st_atime_ns, about.st_mtime_ns)
        os.utime(visit.name, ns=times, dir_fd=self._there, follow_symlinks=False)
        self._note(stamp, about)

    def _link_inside(self, visit: tree.Visit, stamp: bytes) -> None:
        """Another name of a file that this pass has seen."""
        first, has_stamp = self._links[visit.about.st_dev, visit.about.st_ino]
        copied = os.stat(first, dir_fd=self._top, follow_symlinks=False)
        is_there = tree.exists(self._there, visit.name)
        if not is_there or not os.path.samestat(copied, os.stat(visit.name, dir_fd=self._there, follow_symlinks=False)):
            self._drop(visit.name)
            os.link(first, visit.name, src_dir_fd=self._top, dst_dir_fd=self._there, follow_symlinks=False)
            self._touched()
        if has_stamp:
            self.stamps.add(stamp)

    def _file(self, visit: tree.Visit, path: str, stamp: bytes) -> None:
        if self._share(visit, path, stamp):
            self.stamps.add(stamp)
            self._note_links(visit, path, True)
            return
        source = tree.opened_file(visit.name, visit.here)
        try:
            about = os.fstat(source)
            blocks.settle(source)
            self._write(source, visit.name, about)
        finally:
            os.close(source)
        self._note(stamps.stamp(path, about), about)
        self._note_links(visit, path, not stamps.is_recent(about, self._began_ns))

    def _write(self, source: int, name: str, about: os.stat_result) -> None:
        target, is_new = self._opened(name)
        try:
            if blocks.clone(source, target, about.st_size):
                moved_bytes = 0
            elif is_new or about.st_size < blocks.COMPARED_FROM_BYTES:
                blocks.resize_copy(target, 0)
                moved_bytes = blocks.copy(source, target, about, self._way.tell)
            else:
                moved_bytes = blocks.update(source, target, about, self._way.tell)
            self._written_bytes += moved_bytes
            _dress(target, source, about)
            self._flush(target)
        finally:
            os.close(target)

    def _opened(self, name: str) -> tuple[int, bool]:
        """The copy of an earlier pass, if it is this copy's own: a file with another name belongs to others too."""
        with suppress(OSError):
            target = os.open(name, _WRITE | os.O_NONBLOCK, dir_fd=self._there)
            found = os.fstat(target)
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                return target, False
            os.close(target)
        self._drop(name)
        self._touched()
        return os.open(name, _WRITE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._there), True

    def _share(self, visit: tree.Visit, path: str, stamp: bytes) -> bool:
        earlier, about = self._way.earlier, visit.about
        if earlier is None or stamp not in earlier.stamps or not may_share(about, self._began_ns):
            return False
        self._drop(visit.name)
        try:
            os.link(path, visit.name, src_dir_fd=earlier.top, dst_dir_fd=self._there, follow_symlinks=False)
        except OSError:  # it has as many names as a file can have, or its path is too long
            return False
        self._touched()
        return True

    # ---- notes

    def _note(self, stamp: bytes, about: os.stat_result) -> None:
        if not stamps.is_recent(about, self._began_ns):
            self.stamps.add(stamp)

    def _note_links(self, visit: tree.Visit, path: str, has_stamp: bool) -> None:
        about = visit.about
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1 and len(os.fsencode(path)) < _PATH_MAX:
            self._links[about.st_dev, about.st_ino] = path, has_stamp

    def _flush(self, file: int) -> None:
        """At the end of the pass: one by one if they are few, else the whole file system at once. A file that was
        flushed before the others came would be a commit of the journal that saves nothing."""
        self._changed += 1
        if not self._way.moving and self._changed <= FLUSHED_MAX:
            self._unflushed.append(os.dup(file))


class _Inside(Struct):
    """What a directory has: every name of the source, and whether this pass changed the copy."""

    names: set[str]
    is_touched: bool = False


def may_share(about: os.stat_result, now_ns: int) -> bool:
    """With an earlier copy, by hard link."""
    return about.st_size <= SHARED_MAX_BYTES or about.st_ctime_ns <= now_ns - OLD_NS


def drop_copied(name: str, there: int) -> None:
    """`there` is a directory of the copy that is being made, never of data or of a checkpoint."""
    if not tree.is_directory(there, name):
        os.unlink(name, dir_fd=there)
        return
    handle = tree.opened(name, there)
    try:
        tree.empty_out(handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=there)


def _dress(target: int, source: int, about: os.stat_result) -> None:
    """Owner first: changing the owner clears set-uid bits and capabilities."""
    os.fchown(target, about.st_uid, about.st_gid)
    os.fchmod(target, stat.S_IMODE(about.st_mode))
    wanted = os.listxattr(source)
    for name in set(os.listxattr(target)) - set(wanted):
        with suppress(OSError):
            os.removexattr(target, name)
    for name in wanted:
        with suppress(OSError):  # not supported by this file system or kernel
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
