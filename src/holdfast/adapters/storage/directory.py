"""Data directories `<data-dir>/<name>` on a POSIX file system: reached by handle, never through a link or a mount."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.adapters.storage import permission, tree
from holdfast.errors import Conflict, Failed, HoldfastError, NotPermitted
from holdfast.model.ids import is_name
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import DataDirectory

_MODE = 0o700


class DirectoryStorage:
    def __init__(self, root: str, node: str, mounts: str = "/proc/self/mountinfo") -> None:
        self.root = os.path.abspath(root)
        self._node = node
        self._mounts = mounts

    # ---- looking

    def directories(self) -> Sequence[DataDirectory]:
        with self._opened(missing_ok=True) as root:
            if root is None:
                return []
            names = sorted(name for name in os.listdir(root) if is_name(name))
            found = (self._look(root, name) for name in names if _is_directory(root, name))
            return [directory for directory in found if directory is not None]

    def directory(self, name: str) -> DataDirectory | None:
        permission.check_name(name)
        with self._opened(missing_ok=True) as root:
            return None if root is None else self._look(root, name)

    def _look(self, root: int, name: str) -> DataDirectory | None:
        try:
            handle = tree.opened(name, root)
        except FileNotFoundError:
            return None
        try:
            entries, size_bytes = tree.count_entries(handle)
        finally:
            os.close(handle)
        return DataDirectory(name, os.path.join(self.root, name), entries, size_bytes)

    # ---- making and moving

    def create(self, name: str) -> DataDirectory:
        permission.check_name(name)
        with self._opened() as root:
            assert root is not None
            try:
                os.mkdir(name, _MODE, dir_fd=root)
                os.fsync(root)
            except FileExistsError:
                pass
            made = self._look(root, name)
            assert made is not None
            return made

    def set_aside(self, name: str) -> str:
        permission.check_name(name)
        with self._opened() as root:
            assert root is not None
            self._refuse_mounts(root, name)
            number = 1
            while _exists(root, f".aside-{name}-{number}"):
                number += 1
            aside = f".aside-{name}-{number}"
            os.rename(name, aside, src_dir_fd=root, dst_dir_fd=root)
            os.fsync(root)
            return os.path.join(self.root, aside)

    def remove_empty(self, name: str) -> None:
        permission.check_name(name)
        with self._opened(missing_ok=True) as root:
            if root is None:
                return
            try:
                os.rmdir(name, dir_fd=root)
                os.fsync(root)
            except FileNotFoundError:
                return
            except OSError as trouble:
                if trouble.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                raise Conflict(
                    f"data.{name} is not empty, so it is not removed",
                    remedy=f"holdfast order sign --node {self._node} --action purge --target data.{name} --submit",
                    code="not_empty",
                ) from None

    # ---- for good

    def condemn(self, name: str, proof: VerifiedOrder) -> None:
        permission.check(name, self._node, proof)
        aside = _aside(name, proof)
        with self._opened(missing_ok=True) as root:
            if root is None or _exists(root, aside) or not _exists(root, name):
                return
            if not _is_directory(root, name):
                raise _not_ours(f"{self.root}/{name} is a link or a file, not a directory")
            self._refuse_mounts(root, name)
            os.rename(name, aside, src_dir_fd=root, dst_dir_fd=root)
            os.fsync(root)

    def condemned(self, name: str, proof: VerifiedOrder) -> bool:
        permission.check(name, self._node, proof)
        with self._opened(missing_ok=True) as root:
            return root is not None and _exists(root, _aside(name, proof))

    def destroy(self, name: str, proof: VerifiedOrder) -> None:
        self.condemn(name, proof)
        aside = _aside(name, proof)
        with self._opened(missing_ok=True) as root:
            if root is None or not _exists(root, aside):
                return
            self._refuse_mounts(root, aside)
            handle = tree.opened(aside, root)
            try:
                tree.empty_out(handle)
            finally:
                os.close(handle)
            os.rmdir(aside, dir_fd=root)
            os.fsync(root)

    # ---- guards

    @contextmanager
    def _opened(self, missing_ok: bool = False) -> Iterator[int | None]:
        """The root by handle. What the file system complains about comes out in our words."""
        root: int | None = None
        try:
            try:
                root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                if not missing_ok:
                    raise
            yield root
        except tree.CrossesMount as trouble:
            raise _not_ours(f"another file system is mounted below {self.root}, at {trouble}") from trouble
        except OSError as trouble:
            raise self._words(trouble) from trouble
        finally:
            if root is not None:
                os.close(root)

    def _refuse_mounts(self, root: int, name: str) -> None:
        """What is mounted at or below it belongs to somebody else; a bind mount shows in no other way."""
        inside = os.path.realpath(os.path.join(f"/proc/self/fd/{root}", name))
        with open(self._mounts, encoding="utf-8", errors="surrogateescape") as file:
            points = [_unescaped(line.split(" ")[4]) for line in file]
        for point in points:
            if point == inside or point.startswith(inside + "/"):
                raise _not_ours(f"{point} is a mount point")

    def _words(self, trouble: OSError) -> HoldfastError:
        if trouble.errno in (errno.ELOOP, errno.ENOTDIR):
            return _not_ours(f"a part of {self.root} that should be a directory is a link or a file")
        if trouble.errno == errno.ENOSPC:
            return Failed(
                f"no space is left below {self.root}", remedy=f"free space on its file system: df {self.root}"
            )
        what = f"{trouble.filename}: " if trouble.filename else ""
        return Failed(
            f"{self.root} cannot be used: {what}{trouble.strerror}",
            remedy=f"check the disk and who owns it: ls -la {self.root}",
            code="disk_failed",
        )


def _aside(name: str, proof: VerifiedOrder) -> str:
    return f".purging-{proof.order.id}-{name}"


def _exists(root: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_directory(root: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)


def _unescaped(field: str) -> str:
    """mountinfo writes blanks and backslashes in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def _not_ours(why: str) -> NotPermitted:
    return NotPermitted(
        f"{why}; it is left alone",
        remedy="look at it, put a plain directory there or unmount it, then order it again",
        code="not_a_plain_directory",
    )
