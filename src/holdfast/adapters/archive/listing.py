"""The manifest of a run: its lines as they come, the packs that were shipped for them, and its end."""

import os

import msgspec

from holdfast.adapters.archive.account import Account
from holdfast.adapters.archive.base import DRAFT, SHIPPED, Known, Shipped
from holdfast.adapters.archive.draft import Draft
from holdfast.adapters.archive.manifest import seal_manifest
from holdfast.adapters.archive.packs import Spool
from holdfast.model.archive import FORMAT, Entry, PackRow, Part, Totals
from holdfast.ports.archive import Packed, PackJob, Stored
from holdfast.reconcile.archive import Usable


class Listing:
    """`sealed` and `shipped` are called from other threads."""

    def __init__(self, job: PackJob, usable: Usable, account: Account) -> None:
        self._job, self._usable, self._account = job, usable, account
        self._header = msgspec.structs.replace(job.header, format=FORMAT, part_bytes=job.part_bytes)
        self._draft = Draft(os.path.join(job.home, DRAFT), self._header)
        self._new: dict[str, PackRow] = {}
        self._parts: dict[int, list[tuple[str, int, Part]]] = {}  # pack → parts of long files in it

    def keep(self, known: Known) -> None:
        """The line of an earlier run."""
        self._draft.same(known.text)
        self._account.count(known.entry)

    def put(self, entry: Entry, numbers: set[int]) -> None:
        """`numbers` of packs that have no digest yet."""
        self._draft.add(entry, numbers)
        self._account.count(entry)

    def part(self, pack: int, path: str, number: int, part: Part) -> None:
        """A part of a long file is in this pack: a run that is cut goes on after it."""
        self._parts.setdefault(pack, []).append((path, number, part))

    def sealed(self, number: int, row: PackRow) -> None:
        self._draft.resolve(number, row.digest)

    def shipped(self, number: int, row: PackRow) -> None:
        """Only now may a later run rely on it."""
        self._new[row.digest] = row
        parts = [
            (path, at, msgspec.structs.replace(part, pack=row.digest)) for path, at, part in self._parts.pop(number, ())
        ]
        with open(os.path.join(self._job.home, SHIPPED), "ab", opener=_private) as file:
            file.write(msgspec.json.encode(Shipped(row, tuple(parts))) + b"\n")

    def finish(self, spool: Spool) -> Packed:
        account = self._account
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
        self._draft.finish(totals)
        manifest = seal_manifest(self._draft.path, self._header, totals, spool)
        stored = tuple(Stored(row.digest, row.size_bytes) for row in rows) + manifest.pages
        return Packed(
            manifest=b"", digest=manifest.digest, packs=stored, files=account.files, size_bytes=account.size_bytes,
            new_packs=len(self._new), new_bytes=sum(row.size_bytes for row in self._new.values()),
            left_out=tuple(account.left_out), unsettled=tuple(account.unsettled_names),
            vacuumed=tuple(account.vacuumed_names),
        )  # fmt: skip


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
