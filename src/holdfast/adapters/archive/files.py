"""Files on their way into packs: a short one whole, a long one in parts, a database as a copy, an unchanged one not at
all. One that is written to meanwhile is read again, and marked if it does not come to rest."""

import os
import time
from collections.abc import Sequence
from typing import Any

from holdfast.adapters.archive import member, source
from holdfast.adapters.archive.account import Account
from holdfast.adapters.archive.base import Base, Known
from holdfast.adapters.archive.databases import Databases
from holdfast.adapters.archive.draft import mark
from holdfast.adapters.archive.listing import Listing
from holdfast.adapters.archive.packs import Packs
from holdfast.adapters.walking import settled, walk
from holdfast.errors import Failed
from holdfast.model.archive import PARTS_MAX, Entry, Part, order_key, part_name, spelled, whole_bytes_max
from holdfast.ports.archive import PackJob
from holdfast.reconcile import archive as rules


class Files:
    """`beside`: files of databases in the present directory that are left out."""

    def __init__(
        self, job: PackJob, base: Base, usable: rules.Usable, packs: Packs, listing: Listing, account: Account
    ) -> None:
        self._vacuum, self._part_bytes, self._base, self._usable = job.vacuum, job.part_bytes, base, usable
        self._packs, self._listing, self._account = packs, listing, account
        self._databases = Databases(os.path.join(job.home, "databases"))
        self._reader = source.Reader()
        self._began_ns = time.time_ns()
        self._links: dict[tuple[int, int], list[Any]] = {}  # files with several names → path, names that are to come
        self.beside: set[str] = set()

    def add(self, visit: walk.Visit, path: str) -> None:
        raw, about = os.fsencode(path), visit.about
        known = self._base.find(order_key(raw, False))
        if about.st_nlink > 1 and self._is_link(raw, visit):
            return
        for one in known:
            if rules.is_unchanged(one.entry, self._seen(one.entry, visit), self._usable):
                self._listing.keep(one)
                if one.entry.vacuumed:
                    self._leave_beside(visit.name)
                return
        file = self._opened(visit)
        try:
            if self._vacuum and os.pread(file, len(rules.SQLITE_MAGIC), 0) == rules.SQLITE_MAGIC:
                self._database(visit, raw, file, known)
            else:
                self._content(raw, file, file, known, {})
        finally:
            os.close(file)

    def _opened(self, visit: walk.Visit) -> int:
        """If it is another file by now, or gone, then its other names are not names of what is archived here."""
        key = (visit.about.st_dev, visit.about.st_ino)
        try:
            file = walk.opened_file(visit.name, visit.here)
        except FileNotFoundError:
            self._links.pop(key, None)
            raise
        if not os.path.samestat(os.fstat(file), visit.about):
            self._links.pop(key, None)
        return file

    def add_dump(self, name: str, path: str) -> None:
        """What a command of the service wrote: the file at `path`, under this name."""
        raw, file = os.fsencode(name), os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._content(raw, file, file, self._base.find(order_key(raw, False)), {})
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
        self._listing.put(Entry(type="file", link=first[0], **source.facts(raw, visit.about, {})), set())
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
        self.beside |= {name + suffix for suffix in rules.SIDE_FILES}

    # ---- content

    def _content(self, raw: bytes, file: int, content: int, known: Sequence[Known], more: dict[str, Any]) -> None:
        """`content` is the file itself, or the copy of a database."""
        is_copy = content != file
        if not is_copy:
            settled.settle(content)
        for _ in range(source.TRIES):
            about = os.fstat(content)
            facts = {**source.facts(raw, os.fstat(file), source.xattrs_of(file)), **more}
            extents = () if is_copy else source.extents_of(content, about)
            is_long = about.st_size > whole_bytes_max(self._part_bytes)
            text = self._reader.whole(content, 0 if is_long else about.st_size)
            if is_long or source.is_same(about, os.fstat(content)):
                break
        numbers: set[int] = set()
        if is_long:
            facts |= self._long(raw, content, about.st_size, extents, facts, known, numbers)
        else:
            if extents:
                facts["data"] = source.joined(source.data_in(extents, 0, text), len(text))
            facts |= self._short(raw, text, facts, known, numbers)
        is_settled = is_copy or source.is_same(about, os.fstat(content))
        if not is_settled:
            facts["unsettled"] = True
            self._account.unsettled(spelled(raw))
        elif not is_copy and not source.is_recent(about, self._began_ns):
            facts["seen"] = source.seen_of(about)
        self._listing.put(Entry(type="file", **facts), numbers)

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
        self,
        raw: bytes,
        file: int,
        size: int,
        extents: source.Extents,
        facts: dict[str, Any],
        known: Sequence[Known],
        numbers: set[int],
    ) -> dict[str, Any]:
        found, data = list[Part](), list[tuple[int, int]]()
        size_max = PARTS_MAX * self._part_bytes
        if size > size_max:
            raise Failed(
                f"{facts['path'][:200]} is {size:,} bytes long; an archive holds files of {size_max:,}",
                remedy="leave it out: add it to exclude of [snapshot]",
                code="archive_too_long",
            )
        head = Entry(type="file", **facts)
        for number, length, text in self._reader.parts(file, size, extents, self._part_bytes):
            if text is None:
                found.append(Part(length))
                continue
            if extents:
                data += source.data_in(extents, number * self._part_bytes, text)
            sha256 = source.digest(text)
            pack = self._kept_part(facts["path"], number, sha256, known)
            if not pack:
                pack_number = self._packs.add(head, part_name(raw, number), member.FILE, text)
                numbers.add(pack_number)
                pack = mark(pack_number)
                self._listing.part(pack_number, facts["path"], number, Part(length, sha256))
            found.append(Part(length, sha256, pack))
            self._account.progress(0, length)
        size = sum(part.size for part in found)
        return {"size": size, "parts": tuple(found), "data": source.joined(data, size) if extents else ()}

    def _kept_part(self, path: str, number: int, sha256: str, known: Sequence[Known]) -> str:
        for one in known:
            if pack := rules.keeps_part(one.entry, number, sha256, self._usable):
                return pack
        part = self._base.part(path, number)
        return part.pack if part is not None and part.sha256 == sha256 and self._usable.is_usable(part.pack) else ""


def _wal(visit: walk.Visit) -> tuple[int, ...]:
    try:
        return source.seen_of(os.stat(f"{visit.name}-wal", dir_fd=visit.here, follow_symlinks=False))
    except FileNotFoundError:
        return ()
