"""A directory as a target: a disk, a mounted share, any place with a marker of its own (marker.py beside this).

Each call opens the directory and compares its marker before it touches anything else.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.adapters.backup_target import marker, object_files, troubles
from holdfast.adapters.backup_target.blocking import Blocking, Silent
from holdfast.errors import HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import TargetState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from holdfast.ports.backup_target import Prunable, StoredObject

T = TypeVar("T")

LOOK_S = 3.0
OBJECT_S = 120.0  # for one object: a slow USB stick writes a few MB/s
LIST_S = 600.0
PLACES = 4
RESERVE_PART, RESERVE_BYTES_MAX = 100, 1024**3  # 1 % of the file system, at most 1 GiB, stays free
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # the path may lead through links: the operator's choice


class LocalDir:
    """`belongs` answers why this mounted directory is not the target, "" if it is: then the marker is written if it is
    missing. Without it, an operator writes the marker (`attach`), because nothing else tells."""

    def __init__(self, path: str, durable_id: str, belongs: Callable[[int], str] | None = None) -> None:
        self._path = path
        self._durable_id = marker.check_id(durable_id)
        self._belongs = belongs
        self._work = Blocking(PLACES, "backup-target")
        self._looks = Blocking(1, "backup-target-look")

    async def put(self, key: str, content: bytes) -> None:
        await self._run(OBJECT_S, self._put, backup_key.parse(key), content)

    async def get(self, key: str) -> bytes | None:
        return await self._run(OBJECT_S, self._get, backup_key.parse(key))

    async def has(self, keys: Collection[str]) -> set[str]:
        return await self._run(LIST_S, self._has, frozenset(keys))

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._run(LIST_S, self._list, backup_key.check_prefix(prefix))

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._run(OBJECT_S, self._delete, backup_key.parse(key), proof)

    async def look(self) -> TargetState:
        """One look at a time: while one hangs, the next ones say so without another thread."""
        try:
            return await self._looks.run(LOOK_S, self._look)
        except Silent:
            return TargetState("missing", troubles.silent(self._path, LOOK_S).message)

    async def attach(self) -> None:
        """Write the marker: an operator said that this directory is the target of that id."""
        await self._run(OBJECT_S, self._attach)

    async def close(self) -> None:
        """Threads end with their calls."""
        await asyncio.sleep(0)

    async def _run(self, limit_s: float, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await self._work.run(limit_s, function, *arguments)
        except Silent:
            raise troubles.silent(self._path, limit_s) from None
        except OSError as trouble:
            raise troubles.of(self._path, trouble) from trouble

    # ---- in a thread

    def _put(self, key: backup_key.BackupKey, content: bytes) -> None:
        backup_key.check_content(key, content)
        with self._opened() as root:
            if key.text not in object_files.has(root, (key.text,)):
                self._check_room(root, len(content))
            try:
                object_files.put(root, key, content)
            except object_files.Differs:
                raise troubles.damaged(self._path, key.text) from None
            self._check_still_there(root)

    def _get(self, key: backup_key.BackupKey) -> bytes | None:
        with self._opened() as root:
            return object_files.read(root, key)

    def _has(self, keys: Collection[str]) -> set[str]:
        with self._opened() as root:
            return object_files.has(root, keys)

    def _list(self, prefix: str) -> Sequence[StoredObject]:
        with self._opened() as root:
            return object_files.listed(root, prefix)

    def _delete(self, key: backup_key.BackupKey, proof: Prunable) -> None:
        assert proof.key == key.text, "checked before"
        with self._opened() as root:
            object_files.remove(root, key)

    def _look(self) -> TargetState:
        found: marker.Marker | None = None
        try:
            with self._root() as root:
                found = self._marker(root)
                self._check_marker(root, found)
                state = _room(root, self._path)
        except (HoldfastError, OSError) as raised:
            trouble = troubles.of(self._path, raised) if isinstance(raised, OSError) else raised
            return TargetState(troubles.condition(trouble), trouble.message, durable_id=_id(found))
        return TargetState(state.state, state.reason, state.free_bytes, _id(found))

    def _attach(self) -> None:
        with self._root() as root:
            marker.place(root, self._durable_id)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The directory, with the marker that it must have."""
        with self._root() as root:
            self._check_marker(root, self._marker(root))
            yield root

    def _marker(self, root: int) -> marker.Marker | None:
        if self._belongs is None:
            return marker.read(root)
        if why := self._belongs(root):
            raise troubles.missing(self._path, why)
        found = marker.read(root)
        if found is None:
            marker.place(root, self._durable_id)
            found = marker.read(root)
        return found

    @contextmanager
    def _root(self) -> Iterator[int]:
        try:
            root = os.open(self._path, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            raise troubles.missing(self._path, "there is no such directory") from None
        try:
            yield root
        finally:
            os.close(root)

    def _check_marker(self, root: int, found: marker.Marker | None) -> None:
        if found is None:
            raise troubles.missing(self._path, f"the directory has no {marker.NAME}, so it is not the target")
        if found.durable_id != self._durable_id:
            raise troubles.missing(self._path, f"another target is there ({found.durable_id})")
        if found.separate and os.fstat(root).st_dev == os.stat("/").st_dev:
            raise troubles.missing(self._path, "its marker lies on the system disk, and was made on another one")

    def _check_room(self, root: int, size_bytes: int) -> None:
        free = _free_bytes(os.fstatvfs(root))
        if free < size_bytes:
            raise troubles.full(self._path, f"{max(free, 0):,} bytes are free for objects, {size_bytes:,} are needed")

    def _check_still_there(self, root: int) -> None:
        """Unmounted or pulled out while it was written: the object may be on it, but nothing proves that it stays."""
        try:
            here, there = os.fstat(root), os.stat(self._path)
        except OSError as trouble:
            raise troubles.missing(self._path, f"it went away during a write ({trouble.strerror})") from trouble
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise troubles.missing(self._path, "it went away during a write")


def _id(found: marker.Marker | None) -> str:
    return found.durable_id if found is not None else ""


def _free_bytes(about: os.statvfs_result) -> int:
    reserve = min(about.f_frsize * about.f_blocks // RESERVE_PART, RESERVE_BYTES_MAX)
    return about.f_frsize * about.f_bavail - reserve


def _room(root: int, path: str) -> TargetState:
    about = os.fstatvfs(root)
    free = max(_free_bytes(about), 0)
    if about.f_flag & os.ST_RDONLY:
        return TargetState("read_only", troubles.read_only(path).message, free)
    if free < OBJECT_BYTES_MAX or (about.f_files and about.f_favail == 0):
        words = f"{free:,} bytes are free for objects, and one object may have {OBJECT_BYTES_MAX:,}"
        return TargetState("full", troubles.full(path, words).message, free)
    return TargetState("attached", "", free)


def of_marker(path: str) -> LocalDir:
    """The target that this directory says it is."""
    try:
        root = os.open(path, _DIRECTORY)
        try:
            found = marker.read(root)
        finally:
            os.close(root)
    except OSError as trouble:
        raise troubles.of(path, trouble) from trouble
    if found is None:
        raise Invalid(
            f"{path} has no {marker.NAME}, so it is no storage target",
            remedy="give the directory that has the file; its copy must be complete, hidden files included",
            code="no_marker",
        )
    return LocalDir(path, found.durable_id)
