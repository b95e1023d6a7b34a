"""Unpacking: the manifest decides what is made, packs only have content. Runs in the archiver process.

Every object is compared with its digest before it is parsed, every file's content with the manifest before it is
written. A member that the manifest does not name is not looked at: packs keep members of files that changed since.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import Generic, TypeVar

from holdfast.adapters.archive import kept, member, sealed_file
from holdfast.adapters.archive.contents import Contents, about_files, named
from holdfast.adapters.archive.manifest import open_manifest
from holdfast.adapters.archive.messages import Channel, Told
from holdfast.adapters.archive.objects import Objects
from holdfast.adapters.archive.target import Target
from holdfast.adapters.sealing.age_stream import Identity
from holdfast.errors import Conflict, Corrupt, Failed
from holdfast.model.archive import PACK_BYTES, Entry, Header, Totals
from holdfast.ports.archive import Flaw, Progress, Unpacked, UnpackJob

THREADS = 2
PLAIN_BYTES_MAX = PACK_BYTES + (8 << 20)  # with headers
RESERVE_BYTES, ENTRY_BYTES = 16 << 20, 4096
TOLD_EVERY_S = 0.5
HELD_MAX = 2

C = TypeVar("C", bound=Contents)
Sink = Callable[[Entry, int, memoryview], None]  # entry, number of the part or −1, content


class Opened(Generic[C]):
    """An archive whose manifest was opened and judged. `judge` may move the file of its lines."""

    def __init__(self, job: UnpackJob, channel: Channel, judge: Callable[[str, int], C]) -> None:
        self._purpose, self._channel = job.purpose, channel
        self._identity = Identity(job.identity)
        self._objects = Objects(os.path.join(job.home, "in"), channel)
        path = os.path.join(job.home, "lines")
        with open(path, "wb", 1 << 18, opener=_private) as lines:
            self.header: Header = open_manifest(
                job.manifest, job.digest, self._identity, job.purpose, self._objects.content, lines
            )
        try:
            self.contents: C = judge(path, self.header.part_bytes)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)
        self._held: list[dict[tuple[str, int], bytes]] = []
        self._local = threading.local()
        self._lock = threading.Lock()
        self._files = self._size_bytes = 0
        self._told_s = time.monotonic()

    def close(self) -> None:
        self.contents.close()

    def unpacked(self) -> Unpacked:
        totals = self.contents.totals
        return Unpacked(self.header, totals.files, totals.size_bytes)

    def each_pack(self, sink: Sink, digests: Sequence[str]) -> None:
        """The content of every file in these, in any order, from several threads. The first error ends it."""
        self._objects.expect(digests)
        with ThreadPoolExecutor(THREADS) as threads:
            waiting = [threads.submit(self._pack, digest, sink) for digest in digests]
            try:
                for future in waiting:
                    future.result()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    def part(self, entry: Entry, number: int) -> bytes:
        """Of a long file; the packs of the last few are at hand."""
        digest, wanted = entry.parts[number].pack, (entry.path, number)
        for held in self._held:
            if wanted in held:
                return held[wanted]
        found: dict[tuple[str, int], bytes] = {}
        self._pack(digest, lambda one, at, content: found.update({(one.path, at): bytes(content)}))
        self._held = [found, *self._held[: HELD_MAX - 1]]
        return found[wanted]

    def flaws(self) -> list[Flaw]:
        """Of every object, also after the first, and also of packs that a restore does not need."""
        digests = list(self.contents.rows)
        self._objects.expect(digests)
        with ThreadPoolExecutor(THREADS) as threads:
            return [flaw for found in threads.map(self._flaw, digests) for flaw in found]

    def _flaw(self, digest: str) -> list[Flaw]:
        try:
            self._pack(digest, lambda entry, number, content: None)
        except Corrupt as trouble:
            return [Flaw(f"pack {digest}: {named(self.contents.wanted(digest))}", trouble.message)]
        return []

    def _pack(self, digest: str, sink: Sink) -> None:
        with self._lock:
            wanted = self.contents.wanted(digest)
        path = self._objects.take(digest)
        try:
            self._members(digest, self._room().opened(path, digest, self._identity), wanted, sink)
        except Corrupt as trouble:
            raise about_files(trouble, wanted) from None
        finally:
            self._objects.drop(digest)

    def _room(self) -> sealed_file.Room:
        if not hasattr(self._local, "room"):
            self._local.room = sealed_file.Room(PLAIN_BYTES_MAX)
        room: sealed_file.Room = self._local.room
        return room

    def _members(self, digest: str, view: memoryview, wanted: dict[bytes, tuple[Entry, int]], sink: Sink) -> None:
        left, size_bytes = dict(wanted), 0
        try:
            for one in member.members(view, self._purpose.comment):
                if one.name not in wanted:
                    continue
                if one.name not in left:
                    raise member.NoMember("a member is in it twice")
                entry, number = left.pop(one.name)
                size_bytes += one.size
                content = view[one.begin : one.begin + one.size]
                self._check(entry, number, one, content)
                sink(entry, number, content)
        except member.NoMember as trouble:
            raise sealed_file.damaged(digest, str(trouble)) from None
        if left:
            raise sealed_file.damaged(digest, "a file is missing in it")
        self._progress(sum(number <= 0 for _, number in wanted.values()), size_bytes)

    def _check(self, entry: Entry, number: int, one: member.Member, content: memoryview) -> None:
        size, digest = (
            (entry.size, entry.sha256) if number < 0 else (entry.parts[number].size, entry.parts[number].sha256)
        )
        if one.kind != member.FILE or one.size != size or sha256(content).hexdigest() != digest:
            raise member.NoMember(f"{entry.path[:120]!r} is not what the manifest says")

    def _progress(self, files: int, size_bytes: int) -> None:
        with self._lock:
            self._files += files
            self._size_bytes += size_bytes
            now_s = time.monotonic()
            if now_s - self._told_s < TOLD_EVERY_S:
                return
            self._told_s = now_s
            files, size_bytes = self.contents.expected
            done = Progress(min(self._files, files), min(self._size_bytes, size_bytes), size_bytes)
            self._channel.say(Told(done))  # an export may open a pack twice


def unpack(job: UnpackJob, channel: Channel) -> Unpacked:
    opened = Opened(job, channel, Contents)
    contents = opened.contents
    kept.forget(job.home)
    top = os.open(job.top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    os.fchmod(top, 0o700)
    _check_empty(top, job.top)
    check_room(top, job.top, contents.totals)
    target = Target(top, opened.header.part_bytes)
    try:
        with target.flushed():
            _make(target, opened)
        if job.keep:
            with open(os.path.join(job.home, kept.NEXT), "wb", opener=_private) as lines:
                contents.copy(lines)
            inode = os.fstat(top).st_ino
            kept.write(job.home, kept.Kept(job.digest, opened.header.part_bytes, inode), kept.TREE)
    except OSError as trouble:
        raise failed(job.top, trouble) from trouble
    finally:
        target.close()
        os.close(top)
        opened.close()
    return opened.unpacked()


def _make(target: Target, opened: Opened[Contents]) -> None:
    contents = opened.contents
    for entry in contents.entries(contents.directories[1:]):
        target.directory(entry)
    for entry in contents.entries(contents.long):
        target.long_file(entry)
    opened.each_pack(target.put, list(contents.packs))
    for entry in contents.entries(contents.long):
        target.dress_long(entry)
    for entry in contents.entries(contents.bare):
        target.file(entry, memoryview(b""))
    for entry in contents.entries(contents.links):
        target.link(entry)
    for entry in contents.entries(contents.symlinks):
        target.symlink(entry)
    for entry in contents.entries(contents.directories):
        target.dress_directory(entry)


def verify(job: UnpackJob, channel: Channel) -> Sequence[Flaw]:
    try:
        opened = Opened(job, channel, Contents)
    except Corrupt as trouble:
        return [Flaw(f"manifest {job.digest}", trouble.message)]
    try:
        return opened.flaws()
    finally:
        opened.close()


def _check_empty(top: int, path: str) -> None:
    with os.scandir(top) as found:
        if next(found, None) is not None:
            raise Conflict(f"{path} is not empty", remedy=f"empty it first: ls -la {path}", code="not_empty")


def check_room(top: int, path: str, totals: Totals, there: Totals | None = None) -> None:
    """`there`: what the directory has before."""
    disk = os.fstatvfs(top)
    entries = max(totals.entries - (there.entries if there else 0), 0)
    stored_bytes = max(totals.stored_bytes - (there.stored_bytes if there else 0), 0)
    needed = stored_bytes + entries * min(ENTRY_BYTES, disk.f_frsize) + RESERVE_BYTES
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise Failed(
            f"{path} has {free:,} bytes free, and the archive needs {needed:,}",
            remedy="free some space on this disk: `df -h` shows it; or restore to another node",
            code="no_space",
        )
    if disk.f_files and entries > disk.f_favail:
        raise Failed(
            f"{path} has room for {disk.f_favail:,} more files, and the archive needs {entries:,}",
            remedy="delete files on this disk: `df -i` shows it; or restore to another node",
            code="no_space",
        )


def failed(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"the archive cannot be unpacked into {path}: {trouble.strerror or trouble}",
        remedy="look at the disk of this node: `df -h` and `dmesg`; then restore again",
        code="no_space" if trouble.errno in (28, 122) else "archive_unwritable",
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
