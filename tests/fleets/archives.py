"""A place for tests of archives: a tree to archive, a target in memory, keys, and the jobs over them."""

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from holdfast.adapters.archive.memory import MemoryArchiver
from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.identities import AgeIdentities, MemoryIdentities
from holdfast.model.archive import Header, Purpose
from holdfast.ports.archive import Archiver, Fetch, Packed, PackJob, Progress, Rules, UnpackJob, UpdateJob

FLEET = "f" * 64


class Place:
    """`store` is the target. `trouble`, if set, is raised by the target at the next object that it gets or gives."""

    def __init__(
        self, archiver: Archiver, keys: Any, folder: Path, contents: dict[str, dict[str, bytes]] | None
    ) -> None:
        self.archiver, self.keys, self.folder, self._contents = archiver, keys, folder, contents
        self.pair = keys.fresh()
        self.store: dict[str, bytes] = {}
        self.shipped: list[str] = []
        self.ships_max = 10**9
        self.purpose = Purpose(FLEET, "web", 1)
        self.sequence = 0
        if contents is None:
            self.top.mkdir(parents=True)

    # ---- the tree

    @property
    def top(self) -> Path:
        return self.folder / "data"

    def path(self, name: str) -> str:
        return f"/memory/{name}" if self._contents is not None else str(self.folder / name)

    def write(self, files: Mapping[str, bytes], name: str = "data") -> None:
        if self._contents is not None:
            place = self._contents.setdefault(name, {"/": b""})
            for path, content in files.items():
                parts = path.split("/")[:-1]
                place |= {"/".join(parts[: n + 1]) + "/": b"" for n in range(len(parts))}
                place[path] = content
            return
        for path, content in files.items():
            (self.folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name / path).write_bytes(content)

    def elsewhere(self, content: bytes) -> str:
        """The path of a file that is not in the tree."""
        path = self.folder / "elsewhere"
        if isinstance(self.archiver, MemoryArchiver):
            self.archiver.dumps[str(path)] = content
        else:
            path.write_bytes(content)
        return str(path)

    def remove(self, path: str) -> None:
        if self._contents is not None:
            del self._contents["data"][path]
        else:
            (self.top / path).unlink()

    def read(self, name: str) -> dict[str, bytes]:
        if self._contents is not None:
            return {path: text for path, text in self._contents[name].items() if not path.endswith("/")}
        found = (path for path in (self.folder / name).rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.folder / name)): path.read_bytes() for path in found}

    # ---- the verbs

    def job(self, **more: Any) -> PackJob:
        self.sequence += 1
        header = Header(purpose=self.purpose, node="w1", sequence=self.sequence)
        values = {"top": self.path("data"), "home": str(self.folder / "home"), "recipient": self.pair.recipient}
        return PackJob(**{**values, "header": header, "rules": Rules(), **more})

    async def ship(self, digest: str, content: bytes) -> None:
        assert sha256(content).hexdigest() == digest
        await asyncio.sleep(0)
        if len(self.shipped) >= self.ships_max:  # what was let through is stored: several ship at once
            raise ConnectionError("the target is gone")
        self.store[digest] = content
        self.shipped.append(digest)

    async def fetch(self, digest: str) -> bytes:
        await asyncio.sleep(0)
        return self.store[digest]

    def pack(self, **more: Any) -> Packed:
        self.shipped.clear()
        packed = asyncio.run(self.archiver.pack(self.job(**more), self.ship, _ignore))
        self.store[packed.digest] = packed.manifest
        return packed

    def unpack_job(self, packed: Packed, name: str, **more: Any) -> UnpackJob:
        if self._contents is None:
            (self.folder / name).mkdir(exist_ok=True)
        values = {
            "manifest": packed.manifest, "digest": packed.digest, "identity": self.pair.identity,
            "purpose": self.purpose, "home": str(self.folder / "restore-home"), "top": self.path(name),
        }  # fmt: skip
        return UnpackJob(**{**values, **more})

    def unpack(self, packed: Packed, name: str = "restored", fetch: Fetch | None = None, **more: Any) -> Any:
        return asyncio.run(self.archiver.unpack(self.unpack_job(packed, name, **more), fetch or self.fetch, _ignore))

    def update_job(self, packed: Packed, name: str, **more: Any) -> UpdateJob:
        values = msgspec.structs.asdict(self.unpack_job(packed, name, **more))
        return UpdateJob(**{**values, "keep": True})

    def update(self, packed: Packed, name: str = "restored", fetch: Fetch | None = None, **more: Any) -> Any:
        return asyncio.run(self.archiver.update(self.update_job(packed, name, **more), fetch or self.fetch, _ignore))

    def verify(self, packed: Packed, fetch: Fetch | None = None, **more: Any) -> list[Any]:
        job = self.unpack_job(packed, "verified", **more)
        return list(asyncio.run(self.archiver.verify(job, fetch or self.fetch, _ignore)))


def process_place(folder: Path) -> Place:
    return Place(ProcessArchiver(), AgeIdentities(), folder, None)


def memory_place(folder: Path) -> Place:
    random = SeededRandom("archives")
    contents: dict[str, dict[str, bytes]] = {"data": {"/": b""}}
    return Place(MemoryArchiver(random, contents), MemoryIdentities(random), folder, contents)


PLACES: Mapping[str, Callable[[Path], Place]] = {"process": process_place, "memory": memory_place}


def _ignore(progress: Progress) -> None:
    assert progress.files >= 0


# ---- everything about a tree


def facts(top: Path) -> dict[bytes, tuple[Any, ...]]:
    """All that a restore brings back, of `top` and everything below it; files with several names have a group."""
    groups: dict[int, int] = {}
    found = {}
    for path in [os.fsencode(top), *_below(os.fsencode(top))]:
        about = os.lstat(path)
        is_file = stat.S_ISREG(about.st_mode)
        group = groups.setdefault(about.st_ino, len(groups)) if is_file and about.st_nlink > 1 else -1
        is_link = stat.S_ISLNK(about.st_mode)
        content: bytes | str = os.readlink(path) if is_link else _digest(path) if is_file else b""
        names = sorted(os.listxattr(path, follow_symlinks=False))
        xattrs = tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)
        times = about.st_mtime_ns
        found[os.path.relpath(path, os.fsencode(top))] = (
            about.st_mode, about.st_uid, about.st_gid, times, about.st_size if not stat.S_ISDIR(about.st_mode) else 0,
            content, xattrs, group,
        )  # fmt: skip
    return found


def _below(top: bytes) -> list[bytes]:
    return sorted(os.path.join(folder, name) for folder, folders, names in os.walk(top) for name in (*folders, *names))


def _digest(path: bytes) -> bytes:
    whole = sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            whole.update(piece)
    return whole.digest()
