"""The contents of an opened archive that a directory with an earlier tree lacks: what is removed, made and written.

Lines that both have are compared as bytes and not read: a run of them was judged in the earlier manifest. Every other
line is judged as `Contents` judges it, and so is the first of each run, because something else is before it now.
"""

import os
from array import array
from collections.abc import Iterator, Sequence

from holdfast.adapters.archive.base import key_of
from holdfast.adapters.archive.contents import ENTRIES_MAX, Contents, check, check_place
from holdfast.adapters.archive.kept import Lines
from holdfast.model.archive import Entry, Totals, damaged, names_of, spoken
from holdfast.reconcile.archive_changes import Deed, deed, parts_to_write

_PIECE = 256

Counted = tuple[int, int, int, int]  # entries, files, bytes, stored bytes


class Delta(Contents):
    """Its lists have only what is to be made or written. `path` becomes the file `kept_as`."""

    def __init__(self, path: str, part_bytes: int, olds: Sequence[Lines], kept_as: str) -> None:
        self._olds = olds
        self.has_same_parts = all(lines.kept.part_bytes == part_bytes for lines in olds)
        self.removed: list[tuple[Lines, int]] = []  # in walk order
        self.dressed = array("Q")  # files of which only owner, mode, times or attributes are written
        self.dressed_directories = array("Q")
        self.touched: set[bytes] = {b""}  # directories in which names are removed or made
        self._gone: set[bytes] = set()
        self.parts: dict[int, list[int]] = {}  # of long files that are written in place
        self.new = Lines(path, False)
        super().__init__(path, part_bytes)
        os.rename(path, kept_as)
        self.expected = self._expected()

    def close(self) -> None:
        super().close()
        for lines in (*self._olds, self.new):
            lines.close()

    def _expected(self) -> tuple[int, int]:
        """Files and bytes that are written."""
        files = size_bytes = 0
        for places in self.packs.values():
            for place in places:
                entry = self.entry(place)
                if not entry.parts:
                    files, size_bytes = files + 1, size_bytes + entry.size
        for place in self.long:
            entry = self.entry(place)
            numbers = self.parts.get(place, range(len(entry.parts)))
            files, size_bytes = files + 1, size_bytes + sum(entry.parts[number].size for number in numbers)
        return files, size_bytes

    def _numbers(self, place: int) -> dict[str, list[int]]:
        found = super()._numbers(place)
        if place not in self.parts:
            return found
        wanted = set(self.parts[place])
        return {pack: [number for number in numbers if number in wanted] for pack, numbers in found.items()}

    # ---- judging

    def _judged(self, path: str) -> Totals:
        said = self.new.totals
        found = _counted(self._olds[0].totals)
        for (*olds, new), places in self._differences():
            found = _sum(found, olds[0], -1)
            found = _sum(found, new, 1)
            self._decide(olds, new, places)
        if found != _counted(said) or said.entries > ENTRIES_MAX:
            raise damaged("it does not have what its end says")
        return said

    def _differences(self) -> Iterator[tuple[list[Entry | None], list[int]]]:
        """What each old manifest and the new one have at one place in walk order, and where it is in their lines."""
        fresh, before = _Head(self.new), _Before(self._part_bytes)
        heads = [*map(_Head, self._olds), fresh]
        while True:
            if self.has_same_parts and (size := _common(heads)):
                before.check(fresh.entry(), fresh.key())
                before.skip(self.new, fresh.at + size)
                for head in heads:
                    head.at += size
            keys = [head.key() for head in heads if not head.is_over]
            if not keys:
                return
            key = min(keys)
            found = [None if head.is_over or head.key() != key else head.entry() for head in heads]
            if (new := found[-1]) is not None:
                before.check(new, key)
            yield found, [head.at for head in heads]
            for head, entry in zip(heads, found, strict=True):
                if entry is not None:
                    head.step()

    def _decide(self, olds: Sequence[Entry | None], new: Entry | None, places: Sequence[int]) -> None:
        what, place = deed(olds, new, self.has_same_parts), places[-1]
        if what in (Deed.REMOVE, Deed.MAKE):
            self._remove(olds, places, new is None)
        if new is None or what is Deed.SAME:
            return
        if what is Deed.MAKE:
            self.touched.add(spoken(new.path).rpartition(b"/")[0])
        if new.type == "dir" and what is Deed.DRESS:
            self.dressed_directories.append(place)
        elif what is Deed.DRESS:
            self.dressed.append(place)
        elif what is Deed.PARTS:
            self._edit(olds, new, place)
        else:
            self._sort(new, place)

    def _remove(self, olds: Sequence[Entry | None], places: Sequence[int], is_gone: bool) -> None:
        for lines, old, place in zip(self._olds, olds, places[:-1], strict=True):
            if old is not None:
                self.removed.append((lines, place))
                path = spoken(old.path)
                if (folder := path.rpartition(b"/")[0]) not in self._gone:
                    self.touched.add(folder)
                if is_gone and old.type == "dir":
                    self._gone.add(path)
                return

    def _edit(self, olds: Sequence[Entry | None], new: Entry, place: int) -> None:
        numbers = parts_to_write(olds, new, self._part_bytes)
        self.parts[place] = numbers
        self.long.append(place)
        for pack in dict.fromkeys(new.parts[number].pack for number in numbers):
            if pack:
                self.packs.setdefault(pack, array("Q")).append(place)


class _Head:
    """Where one file of lines is read."""

    def __init__(self, lines: Lines) -> None:
        self.lines, self.at = lines, 0
        self._read_at, self._entry, self._key = -1, None, b""  # type: tuple[int, Entry | None, bytes]

    @property
    def is_over(self) -> bool:
        return self.at >= self.lines.end

    def piece(self, begin: int, size: int) -> bytes:
        first = self.at + begin
        return self.lines.bytes[first : min(first + size, self.lines.end)]

    def entry(self) -> Entry:
        if self._read_at != self.at or self._entry is None:
            self._entry = self.lines.entry(self.at)
            self._read_at, self._key = self.at, key_of(self._entry)
        return self._entry

    def key(self) -> bytes:
        self.entry()
        return self._key

    def step(self) -> None:
        self.at = self.lines.after(self.at)


def _common(heads: Sequence[_Head]) -> int:
    """Bytes of whole lines that all have in common from here on: by longer and longer pieces, then by shorter ones."""
    first, *rest = heads
    done, size, is_growing = 0, _PIECE, True
    while size:
        piece = first.piece(done, size)
        if piece and all(head.piece(done, size) == piece for head in rest):
            done += len(piece)
        else:
            is_growing = False
        size = size * 2 if is_growing else size // 2
    return max(first.lines.bytes.rfind(b"\n", first.at, first.at + done) + 1 - first.at, 0)


class _Before:
    """The line before: what comes next must have its place after it."""

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._key: bytes | None = None
        self._above = [b""]  # the directories that lead to it

    def skip(self, lines: Lines, end: int) -> None:
        """To the line that ends there."""
        entry = lines.entry(lines.bytes.rfind(b"\n", 0, end - 1) + 1)
        names = names_of(spoken(entry.path)) if entry.path else []
        self._key, self._above = key_of(entry), [b"", *(names if entry.type == "dir" else names[:-1])]

    def check(self, entry: Entry, key: bytes) -> None:
        before, self._key = self._key, key
        if key <= before if before is not None else key:
            raise damaged(f"{entry.path[:80]!r} is not where it belongs")
        if before is not None:
            check_place(entry, self._above)
            check(entry, self._part_bytes)


def _counted(totals: Totals) -> Counted:
    return totals.entries, totals.files, totals.size_bytes, totals.stored_bytes


def _sum(found: Counted, entry: Entry | None, sign: int) -> Counted:
    if entry is None:
        return found
    size, stored = entry.size, sum(length for _, length in entry.data) if entry.data else entry.size
    if entry.link:
        size = stored = 0
    return found[0] + sign, found[1] + sign * (entry.type != "dir"), found[2] + sign * size, found[3] + sign * stored
