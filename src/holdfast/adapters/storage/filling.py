"""Fill a new volume from a directory of its image: unpacked beside the volume, then renamed into its place.

The unpacked copy is `<data-dir>/<service>/.filling/<volume>`, on the file system of the volume. One rename puts it in
the place of the empty volume: the kernel refuses to replace a directory that has content, so that data of a program is
never replaced. A crash leaves the empty volume or the whole copy in it, and a half copy beside it that the next attempt
drops.
"""

import errno
import os
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import IO, BinaryIO, cast

from holdfast.adapters.storage import blocks, permission, sources, tree
from holdfast.errors import Failed
from holdfast.ports.runtime import ImageDirectory

PLACE = ".filling"
ENTRIES_MAX = 1_000_000
FILE_MODE = 0o777  # data needs no program that runs as its owner (set-uid, set-gid)
DIRECTORY_MODE = 0o7777
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIPE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_END_BYTES = 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DAMAGED = (tarfile.TarError, EOFError, ValueError, OverflowError)


class TooLarge(Exception):
    """The image has more than this disk can take."""


def fill(root: int, root_path: str, service: str, name: str, image: ImageDirectory, owner: str) -> bool:
    permission.check_name(name)
    home = tree.made(permission.check_name(service), root, sources.OWN_MODE)
    try:
        return fill_in(home, root_path, service, name, image, owner)
    finally:
        os.close(home)


def fill_in(home: int, root_path: str, service: str, name: str, image: ImageDirectory, owner: str) -> bool:
    with ExitStack() as handles:
        drop_unpacked(home, name)
        beside = _opened(handles, tree.made(PLACE, home, 0o700))
        try:
            _unpack(beside, name, image, owner)
            is_in_place = put_in_place(beside, name, home)
        except BaseException as trouble:
            with suppress(OSError):  # the original error matters; the next attempt drops the half copy
                drop_unpacked(home, name)
            if isinstance(trouble, _DAMAGED):
                raise _damaged(service, name, trouble) from trouble
            if isinstance(trouble, TooLarge) or (isinstance(trouble, OSError) and trouble.errno in _FULL):
                raise _no_space(root_path, service, name) from trouble
            raise
        drop_unpacked(home, name)
    return is_in_place


def drop_unpacked(home: int, name: str) -> None:
    """Below .filling only, where nothing but copies of images lies: never data."""
    if not tree.exists(home, PLACE):
        return
    with ExitStack() as handles:
        beside = _opened(handles, tree.opened(PLACE, home))
        if tree.exists(beside, name):
            tree.empty_out(_opened(handles, tree.opened(name, beside)))
            os.rmdir(name, dir_fd=beside)
    with suppress(OSError):  # a crash left another volume's copy in it
        os.rmdir(PLACE, dir_fd=home)


def _opened(handles: ExitStack, handle: int) -> int:
    handles.callback(os.close, handle)
    return handle


def put_in_place(beside: int, name: str, home: int) -> bool:
    """Only an empty directory is replaced: the kernel refuses any other."""
    try:
        os.rename(name, name, src_dir_fd=beside, dst_dir_fd=home)
    except OSError as trouble:
        if trouble.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    os.fsync(home)
    os.fsync(beside)
    return True


def _unpack(beside: int, name: str, image: ImageDirectory, owner: str) -> None:
    os.mkdir(name, 0o700, dir_fd=beside)
    top = tree.opened(name, beside)
    try:
        unpacking = _Unpacking(top, owner, _parts(image.inside))
        source = _Ending(image.tar)
        with tarfile.open(fileobj=cast(IO[bytes], source), mode="r|", errorlevel=2) as archive:
            for member, parts in _members(archive, unpacking.outer):
                unpacking.take(archive, member, parts)
        source.require_end()
        unpacking.require_top()
        blocks.flush_all(top)
    finally:
        os.close(top)


def _members(archive: tarfile.TarFile, outer: list[str]) -> Iterator[tuple[tarfile.TarInfo, list[str]]]:
    """Those of the directory, with their path in it; [] is the directory itself."""
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # a kilobyte for each file of the whole image
        parts = _parts(member.name)
        if parts[: len(outer)] == outer:
            yield member, parts[len(outer) :]


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise tarfile.ReadError(f"the image has a path with ..: {path[:200]!r}")
    return parts


class _Ending:
    """A tar that is cut off between two files looks whole: only zeros at its end prove that it is."""

    def __init__(self, tar: BinaryIO) -> None:
        self._tar = tar
        self._last = b""

    def read(self, size: int = -1) -> bytes:
        piece = self._tar.read(size)
        self._last = (self._last + piece)[-_END_BYTES:]
        return piece

    def require_end(self) -> None:
        while self.read(_CHUNK):
            pass
        if self._last != bytes(_END_BYTES):
            raise tarfile.ReadError("it is cut off")


class _Unpacking:
    """Below `top`, by handle; no name is followed if it is a link. What an image says is not believed: sizes and
    counts are compared with the disk before anything is written."""

    def __init__(self, top: int, owner: str, outer: list[str]) -> None:
        self.outer = outer  # path of the directory in the tar
        self._top = top
        self._owner = tuple(int(number) for number in owner.split(":")) if owner else None
        self._left_bytes = blocks.room_bytes(top)
        self._left_entries = min(ENTRIES_MAX, os.fstatvfs(top).f_favail // 2 or ENTRIES_MAX)
        self._has_top = False

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parts: list[str]) -> None:
        self._left_entries -= 1
        if self._left_entries < 0:
            raise TooLarge
        if not parts:
            self._has_top = True
            if not member.isdir():
                raise tarfile.ReadError("it is no directory in the image")
            self._dress(self._top, member, DIRECTORY_MODE)
            return
        above = self._above(parts[:-1])
        try:
            self._entry(archive, member, parts, above)
        finally:
            os.close(above)

    def require_top(self) -> None:
        if not self._has_top:
            raise tarfile.ReadError("the image does not have the directory that it was asked for")

    def _above(self, parts: list[str]) -> int:
        at = os.dup(self._top)
        for part in parts:
            try:
                below = tree.opened(part, at)
            finally:
                os.close(at)
            at = below
        return at

    def _entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parts: list[str], above: int) -> None:
        """Devices are left out."""
        name = parts[-1]
        if member.isdir():
            os.mkdir(name, 0o700, dir_fd=above)
            self._dress_and_close(tree.opened(name, above), member, DIRECTORY_MODE)
        elif member.isreg():
            self._file(archive, member, name, above)
        elif member.issym():
            os.symlink(member.linkname, name, dir_fd=above)
            os.chown(name, *self._owned_by(member), dir_fd=above, follow_symlinks=False)
        elif member.islnk():
            self._link(member, parts, above)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=above)
            self._dress_and_close(os.open(name, _PIPE, dir_fd=above), member, FILE_MODE)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, above: int) -> None:
        self._left_bytes -= member.size
        if self._left_bytes < 0:
            raise TooLarge
        source = archive.extractfile(member)
        assert source is not None
        target = os.open(name, _NEW, 0o600, dir_fd=above)
        with os.fdopen(target, "wb") as file:
            while piece := source.read(_CHUNK):
                file.write(piece)
            file.flush()
            self._dress(target, member, FILE_MODE)
            os.utime(target, (member.mtime, member.mtime))

    def _link(self, member: tarfile.TarInfo, parts: list[str], above: int) -> None:
        """Another name of a file. A file outside the directory has passed already, so that it cannot be had."""
        outer, other = self.outer, _parts(member.linkname)
        if other[: len(outer)] != outer or len(other) == len(outer):
            what = f"{'/'.join(parts)[:100]!r} is a hard link to a file outside of it, {member.linkname[:100]!r}"
            raise tarfile.ReadError(what)
        with suppress(FileNotFoundError):  # of a device, which is left out
            source = self._above(other[len(outer) : -1])
            try:
                os.link(other[-1], parts[-1], src_dir_fd=source, dst_dir_fd=above, follow_symlinks=False)
            finally:
                os.close(source)

    def _dress_and_close(self, handle: int, member: tarfile.TarInfo, modes: int) -> None:
        try:
            self._dress(handle, member, modes)
        finally:
            os.close(handle)

    def _dress(self, handle: int, member: tarfile.TarInfo, modes: int) -> None:
        os.fchown(handle, *self._owned_by(member))
        os.fchmod(handle, member.mode & modes)

    def _owned_by(self, member: tarfile.TarInfo) -> tuple[int, int]:
        return (self._owner[0], self._owner[1]) if self._owner is not None else (member.uid, member.gid)


def own(root: int, service: str, name: str, owner: str) -> None:
    """The top last: as long as it has the old owner, not all is done. The kernel clears set-uid bits of programs."""
    uid, gid = (int(number) for number in owner.split(":"))
    with ExitStack() as handles:
        home = _opened(handles, tree.opened(permission.check_name(service), root))
        top = _opened(handles, tree.opened(permission.check_name(name), home))
        for visit in tree.walk(top):
            if visit.kind == "leave":
                os.fchown(visit.here, uid, gid)
            elif visit.kind == "entry":
                with suppress(FileNotFoundError):
                    os.chown(visit.name, uid, gid, dir_fd=visit.here, follow_symlinks=False)
        blocks.flush_all(top)


def _no_space(root_path: str, service: str, name: str) -> Failed:
    return Failed(
        f"what the image has for the new volume {name} of {service} does not fit on the disk of {root_path}; the "
        "volume is still empty",
        remedy=f"free space on its file system: df {root_path}",
        code="no_space",
    )


def _damaged(service: str, name: str, trouble: BaseException) -> Failed:
    return Failed(
        f"what the image has for the new volume {name} of {service} cannot be read: {trouble}",
        remedy="correct the image, push it and deploy again",
        code="image_unreadable",
    )
