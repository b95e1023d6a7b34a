"""Packing: one walk over the tree beside what earlier runs know. Unchanged files are not opened.

Follows no symlink and crosses no mount. A file that is written to meanwhile is read again, and marked if it does not
come to rest. Runs in the archiver process.
"""

import errno
import os
import stat
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.adapters.archive import member, source
from holdfast.adapters.archive.base import DRAFT, SHIPPED, Base, Known, Shipped, complete, set_aside
from holdfast.adapters.archive.databases import Databases
from holdfast.adapters.archive.draft import Draft, mark
from holdfast.adapters.archive.manifest import seal_manifest
from holdfast.adapters.archive.messages import Channel, Told
from holdfast.adapters.archive.packs import Packs, Spool, emptied, weight
from holdfast.adapters.walking import settled, walk
from holdfast.errors import Failed
from holdfast.model.archive import (
    FORMAT,
    PART_BYTES,
    PARTS_MAX,
    WHOLE_BYTES_MAX,
    Entry,
    PackRow,
    Part,
    Totals,
    order_key,
    part_name,
    spelled,
)
from holdfast.ports.archive import Packed, PackJob, Progress, Stored
from holdfast.reconcile import archive as rules

NAMED_MAX = 20
TOLD_EVERY_S = 0.5


class Packing:
    def __init__(self, job: PackJob, channel: Channel) -> None:
        self._job, self._channel = job, channel
        set_aside(job.home)
        self._base = Base(job.home, job.header.purpose)
        self._usable = rules.Usable(self._base.rows, job.alive)
        self._spool = Spool(os.path.join(job.home, "out"), job.recipient, channel)
        emptied(self._spool.folder)
        channel.listen(self._spool.answered)
        self._draft = Draft(os.path.join(job.home, DRAFT), msgspec.structs.replace(job.header, format=FORMAT))
        self._packs = Packs(self._spool, job.header.purpose.comment, self._sealed, self._shipped)
        self._databases = Databases(os.path.join(job.home, "databases"))
        self._account = _Account(channel, self._base.totals.size_bytes if self._base.totals is not None else 0)
        self._began_ns = time.time_ns()
        self._names: list[str] = []
        self._reader = source.Reader()
        self._links: dict[tuple[int, int], list[Any]] = {}  # files with several names → path, names that are to come
        self._beside: set[str] = set()  # files of databases in this directory that are left out
        self._dumped = False
        self._new: dict[str, PackRow] = {}
        self._parts: dict[int, list[tuple[str, int, Part]]] = {}  # pack → parts of long files in it

    def run(self) -> Packed:
        try:
            self._walk()
        except OSError as trouble:
            if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
                raise  # of the spool: data is only read
            raise self._failed(trouble) from trouble
        self._packs.finish()
        self._spool.settle()
        packed = self._finish()
        self._base.close()
        complete(self._job.home)
        return packed

    # ---- the walk

    def _walk(self) -> None:
        top = os.open(self._job.top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._directory(top, "", os.fstat(top))
            for visit in walk.walk(top, enters=lambda path: not rules.is_excluded(self._job.rules, path)):
                self._visit(visit)
            self._dump("")
        finally:
            os.close(top)

    def _visit(self, visit: walk.Visit) -> None:
        if visit.kind == "enter":
            self._dump("")
            self._names.append(visit.name)
            self._beside = set()
            self._directory(visit.here, "/".join(self._names), visit.about)
        elif visit.kind == "leave":
            if self._names:
                self._names.pop()
        else:
            path = "/".join((*self._names, visit.name))
            self._dump(path)
            if not rules.is_excluded(self._job.rules, path):
                try:
                    self._entry(visit, path)
                except FileNotFoundError:
                    return  # it vanished meanwhile

    def _entry(self, visit: walk.Visit, path: str) -> None:
        kind = stat.S_IFMT(visit.about.st_mode)
        if kind in (stat.S_IFREG, stat.S_IFLNK) and (
            not rules.is_taken(self._job.rules, path) or visit.name in self._beside or self._is_dump(path)
        ):
            return
        if kind == stat.S_IFREG:
            self._file(visit, path)
        elif kind == stat.S_IFLNK:
            self._symlink(visit, path)
        else:
            self._account.leave_out(path)

    def _is_dump(self, path: str) -> bool:
        """A file of this name is not the service's: it would lie in the place of its dump."""
        return bool(self._job.dump) and path == self._job.header.dump

    def _dump(self, before: str) -> None:
        """Its turn comes before the first file with a later name, and before every directory."""
        name = self._job.header.dump
        if self._dumped or not self._job.dump or (before and before <= name):
            return
        self._dumped = True
        raw, file = os.fsencode(name), os.open(self._job.dump, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._content(raw, file, file, self._base.find(order_key(raw, False)), {})
        finally:
            os.close(file)

    def _directory(self, handle: int, path: str, about: os.stat_result) -> None:
        entry = Entry(type="dir", **source.facts(os.fsencode(path), about, source.xattrs_of(handle)))
        self._put(entry, set())

    def _symlink(self, visit: walk.Visit, path: str) -> None:
        raw = os.fsencode(path)
        target = os.fsencode(walk.link_text(visit.name, visit.here))
        xattrs = source.xattrs_of(f"/proc/self/fd/{visit.here}/{visit.name}")
        facts = {**source.facts(raw, visit.about, xattrs), "target": spelled(target)}
        for known in self._base.find(order_key(raw, False)):
            if source.has_same_facts(known.entry, facts) and self._usable.has(known.entry):
                self._keep(known)
                return
        number = self._packs.add(Entry(type="symlink", **facts), raw, member.SYMLINK, b"", target)
        self._put(Entry(type="symlink", pack=mark(number), **facts), {number})

    # ---- files

    def _file(self, visit: walk.Visit, path: str) -> None:
        raw, about = os.fsencode(path), visit.about
        known = self._base.find(order_key(raw, False))
        if about.st_nlink > 1 and self._is_link(raw, visit):
            return
        for one in known:
            if rules.is_unchanged(one.entry, self._seen(one.entry, visit), self._usable):
                self._keep(one)
                if one.entry.vacuumed:
                    self._leave_beside(visit.name)
                return
        file = walk.opened_file(visit.name, visit.here)
        try:
            if self._job.vacuum and os.pread(file, len(rules.SQLITE_MAGIC), 0) == rules.SQLITE_MAGIC:
                self._database(visit, raw, file, known)
            else:
                self._content(raw, file, file, known, {})
        finally:
            os.close(file)

    def _seen(self, before: Entry, visit: walk.Visit) -> tuple[int, ...]:
        seen = source.seen_of(visit.about)
        return seen + _wal(visit) if before.vacuumed else seen

    def _is_link(self, raw: bytes, visit: walk.Visit) -> bool:
        """Another name of a file that this run has. The first name has the content."""
        key = (visit.about.st_dev, visit.about.st_ino)
        if key not in self._links:
            self._links[key] = [spelled(raw), visit.about.st_nlink - 1]
            return False
        first = self._links[key]
        first[1] -= 1
        if not first[1]:
            del self._links[key]
        self._put(Entry(type="file", link=first[0], **source.facts(raw, visit.about, {})), set())
        return True

    def _database(self, visit: walk.Visit, raw: bytes, file: int, known: Sequence[Known]) -> None:
        about = os.fstat(file)
        seen = source.seen_of(about) + _wal(visit)
        self._leave_beside(visit.name)
        with self._databases.copied(visit.here, visit.name, about, spelled(raw)) as copy:
            self._account.vacuumed(spelled(raw))
            settled = seen if not source.is_recent(about, self._began_ns) else ()
            self._content(raw, file, copy, known, {"vacuumed": True, "seen": settled})

    def _leave_beside(self, name: str) -> None:
        self._beside |= {name + suffix for suffix in rules.SIDE_FILES}

    def _content(self, raw: bytes, file: int, content: int, known: Sequence[Known], more: dict[str, Any]) -> None:
        """`content` is the file itself, or the copy of a database."""
        is_copy = content != file
        if not is_copy:
            settled.settle(content)
        for _ in range(source.TRIES):
            about = os.fstat(content)
            facts = {**source.facts(raw, os.fstat(file), source.xattrs_of(file)), **more}
            extents = () if is_copy else source.extents_of(content, about)
            if extents:
                facts["data"] = extents
            is_long = about.st_size > WHOLE_BYTES_MAX
            text = self._reader.whole(content, 0 if is_long else about.st_size)
            if is_long or source.is_same(about, os.fstat(content)):
                break
        numbers: set[int] = set()
        if is_long:
            facts |= self._long(raw, content, about.st_size, facts, known, numbers)
        else:
            facts |= self._short(raw, text, facts, known, numbers)
        is_settled = is_copy or source.is_same(about, os.fstat(content))
        if not is_settled:
            facts["unsettled"] = True
            self._account.unsettled(spelled(raw))
        elif not is_copy and not source.is_recent(about, self._began_ns):
            facts["seen"] = source.seen_of(about)
        self._put(Entry(type="file", **facts), numbers)

    def _short(
        self, raw: bytes, text: memoryview, facts: dict[str, Any], known: Sequence[Known], numbers: set[int]
    ) -> dict[str, Any]:
        if not text:
            return {}
        sha256 = source.digest(text)
        for one in known:
            if pack := rules.keeps(one.entry, sha256, self._usable):
                return {"size": len(text), "sha256": sha256, "pack": pack}
        number = self._packs.add(Entry(type="file", **facts), raw, member.FILE, text)
        numbers.add(number)
        return {"size": len(text), "sha256": sha256, "pack": mark(number)}

    def _long(
        self, raw: bytes, file: int, size: int, facts: dict[str, Any], known: Sequence[Known], numbers: set[int]
    ) -> dict[str, Any]:
        found: list[Part] = []
        if size > PARTS_MAX * PART_BYTES:
            raise Failed(
                f"{facts['path'][:200]} is {size:,} bytes long; an archive holds files of {PARTS_MAX * PART_BYTES:,}",
                remedy="leave it out: add it to exclude of [snapshot]",
                code="archive_too_long",
            )
        head = Entry(type="file", **{**facts, "data": ()})
        for number, length, text in self._reader.parts(file, size, facts.get("data", ())):
            if text is None:
                found.append(Part(length))
                continue
            sha256 = source.digest(text)
            pack = self._kept_part(facts["path"], number, sha256, known)
            if not pack:
                pack_number = self._packs.add(head, part_name(raw, number), member.FILE, text)
                numbers.add(pack_number)
                pack = mark(pack_number)
                self._parts.setdefault(pack_number, []).append((facts["path"], number, Part(length, sha256)))
            found.append(Part(length, sha256, pack))
            self._account.progress(0, length)
        size = sum(part.size for part in found)
        return {"size": size, "parts": tuple(found)}

    def _kept_part(self, path: str, number: int, sha256: str, known: Sequence[Known]) -> str:
        for one in known:
            if pack := rules.keeps_part(one.entry, number, sha256, self._usable):
                return pack
        part = self._base.part(path, number)
        return part.pack if part is not None and part.sha256 == sha256 and self._usable.is_usable(part.pack) else ""

    # ---- lines

    def _keep(self, known: Known) -> None:
        self._draft.same(known.text)
        self._account.count(known.entry)
        if not known.entry.parts:
            self._account.progress(1, known.entry.size)

    def _put(self, entry: Entry, numbers: set[int]) -> None:
        self._draft.add(entry, numbers)
        self._account.count(entry)
        if not entry.parts:
            self._account.progress(1, entry.size)

    def _sealed(self, number: int, row: PackRow) -> None:
        self._draft.resolve(number, row.digest)

    def _shipped(self, number: int, row: PackRow) -> None:
        """Only now may a later run rely on it."""
        self._new[row.digest] = row
        parts = [
            (path, at, msgspec.structs.replace(part, pack=row.digest)) for path, at, part in self._parts.pop(number, ())
        ]
        with open(os.path.join(self._job.home, SHIPPED), "ab", opener=_private) as file:
            file.write(msgspec.json.encode(Shipped(row, tuple(parts))) + b"\n")

    # ---- the end

    def _finish(self) -> Packed:
        account, draft = self._account, self._draft
        old = [
            msgspec.structs.replace(self._usable.rows[digest], live_bytes=live)
            for digest, live in account.live.items()
            if digest in self._usable.rows and digest not in self._new
        ]
        rows = tuple(sorted((*old, *self._new.values()), key=lambda row: row.digest))
        totals = Totals(
            entries=account.entries, files=account.files, size_bytes=account.size_bytes,
            stored_bytes=account.stored_bytes, packs=rows,
        )  # fmt: skip
        draft.finish(totals)
        manifest = seal_manifest(draft.path, self._job.header, totals, self._spool)
        stored = tuple(Stored(row.digest, row.size_bytes) for row in rows) + manifest.pages
        return Packed(
            manifest=b"", digest=manifest.digest, packs=stored, files=account.files, size_bytes=account.size_bytes,
            new_packs=len(self._new), new_bytes=sum(row.size_bytes for row in self._new.values()),
            left_out=tuple(account.left_out), unsettled=tuple(account.unsettled_names),
            vacuumed=tuple(account.vacuumed_names),
        )  # fmt: skip

    def _failed(self, trouble: OSError) -> Failed:
        where = spelled(os.fsencode("/".join(self._names)))[:200] or "."
        return Failed(
            f"{self._job.top} cannot be archived: in {where}: {trouble.strerror or trouble}"
            f"{f' ({trouble.filename})' if isinstance(trouble.filename, str) else ''}",
            remedy="look at the disk of this node: `df -h` and `dmesg`; the next backup tries again",
            code="archive_unreadable",
        )


class _Account:
    """Counts what the manifest has, and tells now and then."""

    def __init__(self, channel: Channel, total_bytes: int) -> None:
        self._channel, self._total_bytes = channel, total_bytes
        self.entries = self.files = self.size_bytes = self.stored_bytes = 0
        self.live: dict[str, int] = {}
        self.left_out: list[str] = []
        self.unsettled_names: list[str] = []
        self.vacuumed_names: list[str] = []
        self._done_files = self._done_bytes = 0
        self._told_s = time.monotonic()

    def count(self, entry: Entry) -> None:
        self.entries += 1
        if entry.type != "dir":
            self.files += 1
        if entry.link:
            return
        self.size_bytes += entry.size
        self.stored_bytes += sum(length for _, length in entry.data) if entry.data else entry.size
        if entry.pack:
            self.live[entry.pack] = self.live.get(entry.pack, 0) + weight(entry.size)
        for part in entry.parts:
            if part.pack:
                self.live[part.pack] = self.live.get(part.pack, 0) + weight(part.size)

    def progress(self, files: int, size_bytes: int) -> None:
        self._done_files += files
        self._done_bytes += size_bytes
        now_s = time.monotonic()
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            self._channel.say(Told(Progress(self._done_files, self._done_bytes, self._total_bytes)))

    def leave_out(self, path: str) -> None:
        _name(self.left_out, spelled(os.fsencode(path)))

    def unsettled(self, path: str) -> None:
        _name(self.unsettled_names, path)

    def vacuumed(self, path: str) -> None:
        _name(self.vacuumed_names, path)


def _name(names: list[str], path: str) -> None:
    if len(names) < NAMED_MAX:
        names.append(path[:200])


def _wal(visit: walk.Visit) -> tuple[int, ...]:
    try:
        return source.seen_of(os.stat(f"{visit.name}-wal", dir_fd=visit.here, follow_symlinks=False))
    except FileNotFoundError:
        return ()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
