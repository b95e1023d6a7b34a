"""The contents of an opened archive: every line is judged before anything is written, and found again by its pack.

Order, parents and names are checked, so that what follows cannot lead out of the directory, write a thing twice or put
something below a file. Memory holds a number for each entry, not the entry.
"""

import os
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO

from holdfast.adapters.archive.base import key_of
from holdfast.errors import Corrupt
from holdfast.model.archive import (
    DEPTH_MAX,
    LINE_BYTES_MAX,
    WHOLE_BYTES_MAX,
    Entry,
    PackRow,
    Totals,
    damaged,
    entry_of,
    is_totals,
    names_of,
    part_name,
    spoken,
    totals_of,
)

ENTRIES_MAX = 100_000_000


class Contents:
    def __init__(self, path: str, part_bytes: int) -> None:
        """`path`: the lines of a manifest without its header. Raises Corrupt."""
        self._part_bytes = part_bytes
        self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.packs: dict[str, array[int]] = {}  # in the order in which they are needed → places of their entries
        self.directories, self.symlinks = array("Q"), array("Q")
        self.links, self.bare, self.long = array("Q"), array("Q"), array("Q")  # bare: empty files
        self.whole: set[str] = set()  # packs with whole files
        self.totals = self._judged(path)
        self.rows = {row.digest: row for row in self.totals.packs}
        for digest in self.packs:
            if digest not in self.rows:
                raise damaged(f"it does not say how long the pack {digest} is")
        self._entry_at = lru_cache(maxsize=4)(self._read)
        self._numbers_at = lru_cache(maxsize=4)(self._numbers)
        self.expected = self.totals.files, self.totals.size_bytes

    def close(self) -> None:
        os.close(self._file)

    def entry(self, place: int) -> Entry:
        return self._entry_at(place)

    def entries(self, places: "array[int]") -> Iterator[Entry]:
        for place in places:
            yield self._read(place)

    def row(self, digest: str) -> PackRow:
        return self.rows[digest]

    def wanted(self, digest: str) -> dict[bytes, tuple[Entry, int]]:
        """Members of a pack that the archive needs: name → entry and number of the part, −1 for a whole file."""
        found: dict[bytes, tuple[Entry, int]] = {}
        for place in self.packs.get(digest, ()):
            entry = self.entry(place)
            path = spoken(entry.path)
            if entry.pack == digest:
                found[path] = entry, -1
            for number in self._numbers_at(place).get(digest, ()):
                found[part_name(path, number)] = entry, number
        return found

    def _numbers(self, place: int) -> dict[str, list[int]]:
        """Of the parts that each pack has of a long file."""
        found: dict[str, list[int]] = {}
        for number, part in enumerate(self.entry(place).parts):
            if part.pack:
                found.setdefault(part.pack, []).append(number)
        return found

    def copy(self, out: BinaryIO) -> None:
        """All lines."""
        at = 0
        while text := os.pread(self._file, 1 << 20, at):
            out.write(text)
            at += len(text)

    # ---- judging

    def _judged(self, path: str) -> Totals:
        key, above, at = b"", [b""], 0
        count = files = size_bytes = stored_bytes = 0
        totals: Totals | None = None
        with open(path, "rb", 1 << 18) as lines:
            while text := lines.readline(LINE_BYTES_MAX):
                if totals is not None:
                    raise damaged("it goes on after its end")
                if is_totals(text):
                    totals = totals_of(text)
                    continue
                entry = entry_of(text)
                now = key_of(entry)
                if (now <= key) if count else entry.path or entry.type != "dir":
                    raise damaged(f"{entry.path[:80]!r} is not where it belongs")
                if entry.path:
                    check_place(entry, above)
                    check(entry, self._part_bytes)
                self._sort(entry, at)
                key, at, count = now, at + len(text), count + 1
                files += entry.type != "dir"
                if not entry.link:
                    size_bytes += entry.size
                    stored_bytes += sum(length for _, length in entry.data) if entry.data else entry.size
        if totals is None:
            raise damaged("its end is missing")
        if (count, files, size_bytes, stored_bytes) != _said(totals) or count > ENTRIES_MAX:
            raise damaged("it does not have what its end says")
        return totals

    def _sort(self, entry: Entry, place: int) -> None:
        if entry.type == "dir":
            self.directories.append(place)
        elif entry.type == "symlink":
            self.symlinks.append(place)
        elif entry.link:
            self.links.append(place)
        elif entry.parts:
            self.long.append(place)
            for pack in dict.fromkeys(entry.packs()):
                self.packs.setdefault(pack, array("Q")).append(place)
        elif entry.pack:
            self.packs.setdefault(entry.pack, array("Q")).append(place)
            self.whole.add(entry.pack)
        else:
            self.bare.append(place)

    def _read(self, place: int) -> Entry:
        text = b""
        size = 1024
        while b"\n" not in text:
            more = os.pread(self._file, size, place + len(text))
            if not more:
                raise damaged("its end is missing")
            text += more
            size *= 4
        return entry_of(text.partition(b"\n")[0])


def _said(totals: Totals) -> tuple[int, int, int, int]:
    return totals.entries, totals.files, totals.size_bytes, totals.stored_bytes


def check_place(entry: Entry, above: list[bytes]) -> None:
    """`above`: the directories that lead to the entry before; each entry lies directly in one of them."""
    names = names_of(spoken(entry.path))
    if len(names) > DEPTH_MAX:
        raise damaged(f"{entry.path[:80]!r} is more than {DEPTH_MAX} directories deep")
    parents = names[:-1]
    if above[1 : len(names)] != parents:
        raise damaged(f"{entry.path[:80]!r} is in a directory that the archive does not have")
    del above[len(names) :]
    if entry.type == "dir":
        above.append(names[-1])


def check(entry: Entry, part_bytes: int) -> None:
    """What an entry says of itself agrees."""
    wrong = ""
    if entry.type != "file":
        has_more = entry.size or entry.sha256 or entry.parts or entry.link or entry.data
        wrong = "is no file, but has content" if has_more else ""
        if entry.type == "symlink":
            target = spoken(entry.target)
            wrong = wrong or ("leads nowhere" if not target or b"\0" in target or len(target) > 4095 else "")
    elif entry.link:
        names_of(spoken(entry.link))
    elif entry.parts:
        sizes = [part.size for part in entry.parts]
        is_even = sum(sizes) == entry.size and all(size == part_bytes for size in sizes[:-1])
        wrong = "" if is_even and not entry.pack else "has parts that do not fit"
    elif entry.size > WHOLE_BYTES_MAX or bool(entry.size) != bool(entry.pack):
        wrong = "has a length without content"
    wrong = wrong or _wrong_data(entry)
    if wrong:
        raise damaged(f"{entry.path[:80]!r} {wrong}")


def _wrong_data(entry: Entry) -> str:
    end = 0
    for begin, length in entry.data:
        if begin < end or begin + length > entry.size:
            return "has holes that do not fit"
        end = begin + length
    return ""


def named(wanted: dict[bytes, tuple[Entry, int]]) -> str:
    """The files of a pack, for a message."""
    paths = list(dict.fromkeys(entry.path for entry, _ in wanted.values()))
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0][:120]}{more}" if paths else "no file"


def about_files(error: Corrupt, wanted: dict[bytes, tuple[Entry, int]]) -> Corrupt:
    return Corrupt(f"{error.message} (it has {named(wanted)})", remedy=error.remedy, code=error.code)
