"""Packing: one walk over the tree beside what earlier runs know. Unchanged files are not opened.

Follows no symlink and crosses no mount. Runs in the archiver process.
"""

import errno
import os
import stat

from holdfast.adapters.archive import member, source
from holdfast.adapters.archive.account import Account
from holdfast.adapters.archive.base import Base, complete, set_aside
from holdfast.adapters.archive.draft import mark
from holdfast.adapters.archive.files import Files
from holdfast.adapters.archive.listing import Listing
from holdfast.adapters.archive.messages import Channel
from holdfast.adapters.archive.packs import Packs, Spool, emptied
from holdfast.adapters.walking import walk
from holdfast.errors import Failed
from holdfast.model.archive import DEPTH_MAX, Entry, order_key, spelled
from holdfast.ports.archive import Packed, PackJob
from holdfast.reconcile import archive as rules


class Packing:
    def __init__(self, job: PackJob, channel: Channel) -> None:
        self._job = job
        set_aside(job.home)
        self._base = Base(job.home, job.header.purpose, job.part_bytes)
        self._usable = rules.Usable(self._base.rows, job.alive, job.tidy)
        self._spool = Spool(os.path.join(job.home, "out"), job.recipient, channel)
        emptied(self._spool.folder)
        channel.listen(self._spool.answered)
        self._account = Account(channel, self._base.totals.size_bytes if self._base.totals is not None else 0)
        self._listing = Listing(job, self._usable, self._account)
        self._packs = Packs(self._spool, job.header.purpose.comment, self._listing.sealed, self._listing.shipped)
        self._files = Files(job, self._base, self._usable, self._packs, self._listing, self._account)
        self._names: list[str] = []
        self._dumped = False

    def run(self) -> Packed:
        try:
            self._walk()
        except OSError as trouble:
            if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
                raise  # of the spool: data is only read
            raise self._failed(trouble) from trouble
        self._packs.finish()
        self._spool.settle()
        packed = self._listing.finish(self._spool)
        self._base.close()
        complete(self._job.home)
        return packed

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
            self._check_depth()
            self._files.beside = set()
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

    def _check_depth(self) -> None:
        """No restore would take what is in it."""
        if len(self._names) >= DEPTH_MAX:
            raise Failed(
                f"{'/'.join(self._names[:3])[:99]} has {DEPTH_MAX:,} directories one in another; an archive has fewer",
                remedy="leave it out: add it to exclude of [snapshot]",
                code="archive_too_deep",
            )

    def _entry(self, visit: walk.Visit, path: str) -> None:
        kind = stat.S_IFMT(visit.about.st_mode)
        if kind in (stat.S_IFREG, stat.S_IFLNK) and (
            not rules.is_taken(self._job.rules, path) or visit.name in self._files.beside or self._is_dump(path)
        ):
            return
        if kind == stat.S_IFREG:
            self._files.add(visit, path)
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
        self._files.add_dump(name, self._job.dump)

    def _directory(self, handle: int, path: str, about: os.stat_result) -> None:
        entry = Entry(type="dir", **source.facts(os.fsencode(path), about, source.xattrs_of(handle)))
        self._listing.put(entry, set())

    def _symlink(self, visit: walk.Visit, path: str) -> None:
        raw = os.fsencode(path)
        target = os.fsencode(walk.link_text(visit.name, visit.here))
        xattrs = source.xattrs_of(f"/proc/self/fd/{visit.here}/{visit.name}")
        facts = {**source.facts(raw, visit.about, xattrs), "target": spelled(target)}
        for known in self._base.find(order_key(raw, False)):
            if source.has_same_facts(known.entry, facts) and self._usable.has(known.entry):
                self._listing.keep(known)
                return
        number = self._packs.add(Entry(type="symlink", **facts), raw, member.SYMLINK, b"", target)
        self._listing.put(Entry(type="symlink", pack=mark(number), **facts), {number})

    def _failed(self, trouble: OSError) -> Failed:
        where = spelled(os.fsencode("/".join(self._names)))[:200] or "."
        return Failed(
            f"{self._job.top} cannot be archived: in {where}: {trouble.strerror or trouble}"
            f"{f' ({trouble.filename})' if isinstance(trouble.filename, str) else ''}",
            remedy="look at the disk of this node: `df -h` and `dmesg`; the next backup tries again",
            code="archive_unreadable",
        )
