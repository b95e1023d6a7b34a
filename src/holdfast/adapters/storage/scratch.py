"""Directories `<data-dir>/.drills/<id>`: on the disk of the data, opened by handle, never through a symlink."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from holdfast.adapters.storage import blocks, filling, permission, tree
from holdfast.errors import Conflict, Failed
from holdfast.ports.runtime import ImageDirectory
from holdfast.ports.scratch import Clearable, Drillable

PLACE = ".drills"
MODE = 0o755  # of what a container sees, where the service has none: as container engines make missing bind sources


class DirectoryScratch:
    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def path(self, id: str) -> str:
        return os.path.join(self._root, PLACE, permission.check_id(id))

    def room_bytes(self) -> int:
        with self._opened(made=True) as place:
            assert place is not None
            return blocks.room_bytes(place)

    def make(self, proof: Drillable) -> str:
        path = self.path(proof.id)
        with self._opened(made=True) as place:
            assert place is not None
            try:
                os.mkdir(proof.id, 0o700, dir_fd=place)
            except FileExistsError:
                raise Conflict(
                    f"{path} is there already", remedy=f"look at it, then move it away: {path}", code="scratch_exists"
                ) from None
            os.fsync(place)
        return path

    def lacks(self, proof: Drillable, place: str) -> bool:
        with self._top(proof) as top:
            return bool(place) and "/" not in place and not tree.exists(top, place)

    def volume(self, proof: Drillable, place: str, image: ImageDirectory | None = None, owner: str = "") -> str:
        with self._top(proof) as top:
            if image is not None and not tree.exists(top, permission.check_name(place)):
                filling.fill_in(top, self._root, proof.service, place, image, owner)
            elif place:
                self._make_below(top, proof.service, place.split("/"), owner)
        return os.path.join(self.path(proof.id), place) if place else self.path(proof.id)

    @contextmanager
    def _top(self, proof: Drillable) -> Iterator[int]:
        with self._opened(made=False) as drills:
            assert drills is not None, "it was made before"
            top = tree.opened(permission.check_id(proof.id), drills)
            try:
                yield top
            finally:
                os.close(top)

    def _make_below(self, top: int, service: str, parts: Sequence[str], owner: str) -> None:
        """No part may be a symlink: the program of the service may have made one."""
        above = os.dup(top)
        try:
            for at, part in enumerate(parts):
                if not part or part in (".", ".."):
                    raise permission.not_ours(f"{'/'.join(parts)} is not a plain path")
                if at == len(parts) - 1 and tree.exists(above, part) and not tree.is_directory(above, part):
                    if tree.is_link(above, part):
                        raise permission.not_ours(f"{'/'.join(parts)} is a symbolic link in the backup")
                    return  # a file, such as a configuration
                is_new = not tree.exists(above, part)
                below = tree.made(part, above, MODE)
                os.close(above)
                above = below
                if is_new:
                    self._as_of(service, parts[: at + 1], above)
                    if owner and at == len(parts) - 1:
                        os.fchown(above, *map(int, owner.split(":")))
        finally:
            os.close(above)

    def _as_of(self, service: str, parts: Sequence[str], made: int) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            about = os.stat(os.path.join(self._root, service, *parts), follow_symlinks=False)
            os.fchown(made, about.st_uid, about.st_gid)
            os.fchmod(made, about.st_mode & 0o7777)

    def found(self) -> Sequence[str]:
        with self._opened(made=False) as place:
            return [] if place is None else [name for name in tree.directories(place) if permission.is_id(name)]

    def clear(self, proof: Clearable) -> None:
        id = permission.check_id(proof.id)
        with self._opened(made=False) as place:
            if place is None or not tree.exists(place, id):
                return
            handle = tree.opened(id, place)
            try:
                tree.empty_out(handle)
            finally:
                os.close(handle)
            os.rmdir(id, dir_fd=place)
            os.fsync(place)

    @contextmanager
    def _opened(self, made: bool) -> Iterator[int | None]:
        """The directory of all drills, by handle. Translates OS errors into ours."""
        root = place = None
        try:
            with suppress(FileNotFoundError):
                root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if root is not None and (made or tree.exists(root, PLACE)):
                place = tree.made(PLACE, root, 0o700)
            if place is None and made:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._root)
            yield place
        except tree.CrossesMount as trouble:
            raise permission.not_ours(f"another file system is mounted below {self._root}/{PLACE}") from trouble
        except OSError as trouble:
            if trouble.errno in (errno.ELOOP, errno.ENOTDIR):
                raise permission.not_ours(
                    f"a symbolic link or a file is in the place of a directory in {PLACE}"
                ) from None
            full = trouble.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Failed(
                f"{self._root}/{PLACE}: {trouble.strerror or trouble}",
                remedy=f"free some space: `df -h {self._root}`" if full else f"look at the disk: df {self._root}",
                code="no_space" if full else "storage",
            ) from trouble
        finally:
            for handle in (place, root):
                if handle is not None:
                    os.close(handle)
