"""Data directories `<data-dir>/<name>` on a POSIX file system: opened by handle, never through a symlink or mount."""

import errno
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from holdfast.adapters.storage import (
    asides,
    checkpoints,
    filling,
    passports,
    permission,
    receiving,
    restoring,
    sources,
    tree,
)
from holdfast.errors import Conflict, Failed, HoldfastError
from holdfast.model.ids import is_name
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.runtime import ImageDirectory
from holdfast.ports.storage import (
    MOUNTS,
    OVERWRITES,
    SETS_ASIDE,
    Ahead,
    Checkpoint,
    DataDirectory,
    Discardable,
    Disposable,
    Need,
    Placeable,
    Purgeable,
    Receivable,
    Restorable,
    Returnable,
    SetAside,
)

COUNTED_FOR_S = 600.0  # how long the figures of a report are reused
COUNTING_S_MAX = 0.05  # time limit of one report for renewing them


class DirectoryStorage:
    def __init__(
        self,
        root: str,
        node: str,
        mounts: str = "/proc/self/mountinfo",
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = os.path.abspath(root)
        self._node = node
        self._mounts = mounts
        self._monotonic_s = monotonic_s
        self._counted: dict[str, tuple[float, DataDirectory]] = {}  # when, what

    # ---- reading

    def directories(self) -> Sequence[DataDirectory]:
        with self._opened(missing_ok=True) as root:
            if root is None:
                return []
            names = {name for name in tree.directories(root) if is_name(name)}
            self._renew(root, names)
            return [self._counted[name][1] for name in sorted(names & self._counted.keys())]

    def _renew(self, root: int, names: set[str]) -> None:
        """Count new directories at once; recount old ones within the time limit, the oldest first."""
        begun_s = self._monotonic_s()
        known = {name: counted for name, counted in self._counted.items() if name in names}
        for name in sorted(names, key=lambda name: known[name][0] if name in known else -1.0):
            now_s = self._monotonic_s()
            if name in known and (now_s - begun_s > COUNTING_S_MAX or now_s - known[name][0] < COUNTED_FOR_S):
                continue
            found = self._look(root, name)
            if found is not None:
                known[name] = (now_s, found)
        self._counted = known

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
            count = tree.count_entries(handle)
        finally:
            os.close(handle)
        return DataDirectory(name, os.path.join(self.root, name), count.files, count.size_bytes, count.entries)

    def content(self, place: str) -> DataDirectory | None:
        path = os.path.join(self.root, place)
        with self._opened(missing_ok=True) as root:
            found = None if root is None else tree.count_at(root, place.split("/"))
        if found is None:
            return None
        return DataDirectory(place, path, found.files, found.size_bytes, found.entries, found.names, found.owner)

    # ---- passports

    def passport(self, place: str) -> bytes | None:
        with self._opened(missing_ok=True) as root:
            return None if root is None else passports.read(root, place)

    def keep_passport(self, place: str, text: bytes) -> None:
        with self._opened() as root:
            assert root is not None
            passports.keep(root, place, text)

    # ---- creating and moving

    def create(self, name: str) -> DataDirectory:
        permission.check_name(name)
        with self._opened() as root:
            assert root is not None
            try:
                os.mkdir(name, sources.OWN_MODE, dir_fd=root)
                os.fsync(root)
            except FileExistsError:
                pass
            made = self._look(root, name)
            assert made is not None
            return made

    def volume(self, service: str, name: str, allowed: Allowed) -> str:
        check(allowed, MOUNTS, f"{self.root}/{service}/{name}")
        with self._opened() as root:
            assert root is not None
            return sources.volume(root, self.root, service, name)

    def fill(self, service: str, name: str, image: ImageDirectory, owner: str, allowed: Allowed) -> bool:
        check(allowed, OVERWRITES, f"{self.root}/{service}/{name}")
        with self._opened() as root:
            assert root is not None
            return filling.fill(root, self.root, service, name, image, owner)

    def own(self, service: str, name: str, owner: str, allowed: Allowed) -> None:
        check(allowed, OVERWRITES, f"{self.root}/{service}/{name}")
        with self._opened() as root:
            assert root is not None
            self._refuse_mounts(root, f"{permission.check_name(service)}/{permission.check_name(name)}", below=True)
            filling.own(root, service, name, owner)

    def host_path(self, service: str, path: str, allowed: Allowed) -> str:
        check(allowed, MOUNTS, path)
        with self._opened() as root:
            assert root is not None
            return sources.host_path(root, self.root, service, path)

    def set_aside(self, name: str, allowed: Allowed) -> str:
        check(allowed, SETS_ASIDE, f"data.{name}")
        permission.check_name(name)
        with self._opened() as root:
            assert root is not None
            self._refuse_mounts(root, name)
            number = 1
            while tree.exists(root, f".aside-{name}-{number}"):
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

    # ---- checkpoints

    def need(self, service: str, off: Collection[str] = ()) -> Need | None:
        with self._opened(missing_ok=True) as root:
            return None if root is None else checkpoints.need(root, service, frozenset(off))

    def copy_ahead(self, service: str, id: str, off: Collection[str], tell: Callable[[int], None]) -> Ahead:
        with self._opened() as root:
            assert root is not None
            return checkpoints.ahead(root, self.root, service, id, frozenset(off), tell)

    def drop_ahead(self, service: str) -> None:
        with self._opened(missing_ok=True) as root:
            if root is not None:
                checkpoints.drop_unused(root, service)

    def checkpoint(self, service: str, id: str, at_s: float, off: Collection[str] = ()) -> Checkpoint:
        with self._opened() as root:
            assert root is not None
            return checkpoints.make(root, self.root, service, id, at_s, frozenset(off))

    def checkpoints(self) -> Sequence[Checkpoint]:
        with self._opened(missing_ok=True) as root:
            return [] if root is None else checkpoints.found(root, self.root)

    def discard(self, proof: Discardable) -> None:
        with self._opened(missing_ok=True) as root:
            if root is not None:
                self._refuse_mounts(root, checkpoints.place(proof.checkpoint))
                checkpoints.discard(root, proof)

    # ---- copies from elsewhere

    def receive(self, proof: Receivable) -> str:
        with self._opened() as root:
            assert root is not None
            return receiving.begin(root, self.root, proof)

    def make_received(self, proof: Receivable, volume: str, image: ImageDirectory | None, owner: str) -> str:
        with self._opened() as root:
            assert root is not None
            return receiving.volume(root, self.root, proof, volume, image, owner)

    def received(
        self, proof: Receivable, at_s: float, off: Collection[str] = (), drop: Collection[str] = ()
    ) -> Checkpoint:
        with self._opened() as root:
            assert root is not None
            return receiving.end(root, self.root, proof, at_s, off, drop)

    def drop_received(self, proof: Receivable) -> None:
        with self._opened(missing_ok=True) as root:
            if root is not None:
                receiving.drop(root, proof)

    def resume(self, proof: Receivable) -> str | None:
        with self._opened(missing_ok=True) as root:
            return None if root is None else receiving.resumed(root, self.root, proof)

    def take_in(self, proof: Placeable, drop: Collection[str] = ()) -> None:
        with self._opened() as root:
            assert root is not None
            self._refuse_others(root, proof.copy.service)
            receiving.take_in(root, self.root, proof.copy, drop)

    # ---- restoring

    def stage(self, proof: Restorable) -> str:
        with self._opened() as root:
            assert root is not None
            return restoring.stage(root, self.root, proof)

    def exchange(self, proof: Restorable, staged: str, at_s: float) -> Checkpoint | None:
        with self._opened() as root:
            assert root is not None
            self._refuse_others(root, proof.checkpoint.service)
            return restoring.exchange(root, self.root, proof, staged, at_s)

    def unstage(self, proof: Restorable) -> None:
        with self._opened() as root:
            assert root is not None
            restoring.unstage(root, proof)

    # ---- purging

    def aside(self, name: str, order: str) -> str:
        return os.path.join(self.root, asides.aside(name, order))

    def condemn(self, proof: Purgeable) -> None:
        with self._opened(missing_ok=True) as root:
            if root is not None:
                if not asides.exists(root, proof.service, proof.order):
                    self._refuse_others(root, proof.service)
                asides.move(root, proof)

    def dispose(self, proof: Disposable) -> None:
        with self._opened(missing_ok=True) as root:
            if root is not None:
                self._refuse_mounts(root, asides.aside(proof.service, proof.order))
                asides.dispose(root, proof)

    def set_aside_by(self, name: str) -> Sequence[str]:
        permission.check_name(name)
        with self._opened(missing_ok=True) as root:
            return [] if root is None else asides.orders(root, name)

    def asides(self) -> Sequence[SetAside]:
        with self._opened(missing_ok=True) as root:
            return [] if root is None else asides.found(root, self.root)

    def bring_back(self, proof: Returnable) -> None:
        with self._opened() as root:
            assert root is not None
            asides.back(root, self._node, proof)

    def _refuse_others(self, root: int, name: str) -> None:
        """Only a plain directory is moved, and none with a mount inside."""
        if tree.exists(root, name) and not tree.is_directory(root, name):
            raise permission.not_ours(f"{self.root}/{name} is a symbolic link or a file, not a directory")
        self._refuse_mounts(root, name)
        self._refuse_mounts(root, f"{checkpoints.PLACE}/{name}")

    # ---- guards

    @contextmanager
    def _opened(self, missing_ok: bool = False) -> Iterator[int | None]:
        """The root by handle. Translates OS errors into ours."""
        root: int | None = None
        try:
            try:
                root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                if not missing_ok:
                    raise
            yield root
        except tree.CrossesMount as trouble:
            raise permission.not_ours(
                f"another file system is mounted below {self.root}, at {tree.shown(str(trouble))}"
            ) from trouble
        except OSError as trouble:
            raise self._words(trouble) from trouble
        finally:
            if root is not None:
                os.close(root)

    def _refuse_mounts(self, root: int, name: str, below: bool = False) -> None:
        """A file system mounted at or below it is not ours; only mountinfo reveals a bind mount. `below`: a volume may
        be a disk of its own."""
        inside = os.path.realpath(os.path.join(f"/proc/self/fd/{root}", name))
        with open(self._mounts, encoding="utf-8", errors="surrogateescape") as file:
            points = [_unescaped(line.split(" ")[4]) for line in file]
        for point in points:
            if (point == inside and not below) or point.startswith(inside + "/"):
                raise permission.not_ours(f"{tree.shown(point)} is a mount point")

    def _words(self, trouble: OSError) -> HoldfastError:
        if trouble.errno in (errno.ELOOP, errno.ENOTDIR):
            return permission.not_ours(f"a symbolic link or a file is in the place of a directory in {self.root}")
        if trouble.errno == errno.ENOSPC:
            return Failed(
                f"no space is left below {self.root}", remedy=f"free space on its file system: df {self.root}"
            )
        what = f"{tree.shown(str(trouble.filename))}: " if trouble.filename else ""
        return Failed(
            f"cannot use {self.root}: {what}{trouble.strerror}",
            remedy=f"check the disk and the owner: ls -la {self.root}",
            code="disk_failed",
        )


def _unescaped(field: str) -> str:
    """mountinfo writes spaces and backslashes in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
