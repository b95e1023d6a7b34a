"""What earlier runs know: the manifest of the last whole one, the drafts of cut ones, and the packs that were shipped.

All are in walk order, so that one pass over the tree reads each of them once. Damage means that less is known: content
is then read and stored again.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.archive import (
    Entry,
    PackRow,
    Part,
    Purpose,
    Totals,
    entry_of,
    header_of,
    is_totals,
    order_key,
    spoken,
    totals_of,
)

MANIFEST, DRAFT, SHIPPED = "manifest", "manifest.new", "shipped"
_CUT = re.compile(r"cut-[0-9]+\Z")
_TAIL = 1 << 16


class Shipped(Struct, frozen=True, omit_defaults=True):
    """A line of the file `shipped`: a pack that every target has, and the parts of long files in it by path and
    number."""

    row: PackRow
    parts: tuple[tuple[str, int, Part], ...] = ()


class Known(NamedTuple):
    entry: Entry
    text: bytes


class Cursor:
    """One file of entries, read forwards. `has_parts`: its long files have parts of the wanted size."""

    def __init__(self, file: BinaryIO, has_parts: bool) -> None:
        self._file, self._has_parts = file, has_parts
        self._key, self._known = b"", None  # type: tuple[bytes, Known | None]
        self._over = False

    def find(self, key: bytes) -> Known | None:
        while not self._over and self._key < key:
            self._step()
        if self._over or self._key != key or self._known is None:
            return None
        return self._known if self._has_parts or not self._known.entry.parts else None

    def _step(self) -> None:
        text = self._file.readline()
        if not text.endswith(b"\n") or is_totals(text):
            self._over = True
            return
        try:
            entry = entry_of(text)
            key = key_of(entry)
        except Corrupt:
            self._over = True
            return
        self._over = key <= self._key and self._known is not None
        self._key, self._known = key, Known(entry, text)

    def close(self) -> None:
        self._file.close()


class Base:
    def __init__(self, home: str, purpose: Purpose, part_bytes: int) -> None:
        self._cursors: list[Cursor] = []
        self._part_bytes = part_bytes
        self.rows: list[PackRow] = []
        self.totals: Totals | None = None
        self._parts: dict[str, dict[int, Part]] = {}
        self._shipped(home)
        for name in (MANIFEST, *sorted(one for one in os.listdir(home) if _CUT.match(one))):
            self._open(os.path.join(home, name), purpose, name == MANIFEST)

    def find(self, key: bytes) -> Sequence[Known]:
        """The newest first."""
        return [known for cursor in reversed(self._cursors) if (known := cursor.find(key)) is not None]

    def part(self, path: str, number: int) -> Part | None:
        """Of a long file whose archive was cut in the middle."""
        return self._parts.get(path, {}).get(number)

    def _open(self, path: str, purpose: Purpose, is_whole: bool) -> None:
        with suppress(FileNotFoundError, Corrupt):
            file = open(path, "rb", 1 << 18, opener=_plain)  # noqa: SIM115
            try:
                totals = _last(file) if is_whole else None
                header = header_of(file.readline())
                if header.purpose != purpose:
                    raise Corrupt("another purpose", remedy="")
            except Corrupt:
                file.close()
                raise
            if totals is not None:
                self.totals = totals
                self.rows += totals.packs
            self._cursors.append(Cursor(file, header.part_bytes == self._part_bytes))

    def _shipped(self, home: str) -> None:
        with suppress(FileNotFoundError), open(os.path.join(home, SHIPPED), "rb", opener=_plain) as file:
            for text in file:
                with suppress(msgspec.DecodeError):
                    said = msgspec.json.decode(text, type=Shipped)
                    self.rows.append(said.row)
                    for name, number, part in said.parts:
                        self._parts.setdefault(name, {})[number] = part

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()


def key_of(entry: Entry) -> bytes:
    return order_key(spoken(entry.path), entry.type == "dir") if entry.path else b""


def set_aside(home: str) -> None:
    """The draft of a run that was cut becomes a file for the next ones."""
    numbers = [int(name[4:]) for name in os.listdir(home) if _CUT.match(name)]
    with suppress(FileNotFoundError):
        os.rename(os.path.join(home, DRAFT), os.path.join(home, f"cut-{max(numbers, default=0) + 1:04}"))


def complete(home: str) -> None:
    """The draft is the manifest now; what cut runs left is not needed any more."""
    os.rename(os.path.join(home, DRAFT), os.path.join(home, MANIFEST))
    for name in os.listdir(home):
        if _CUT.match(name) or name == SHIPPED:
            os.unlink(os.path.join(home, name))


def _last(file: BinaryIO) -> Totals:
    """The last line; the file is at its beginning afterwards."""
    end = file.seek(0, os.SEEK_END)
    size, tail = _TAIL, b""
    while True:
        file.seek(max(0, end - size))
        tail = file.read()
        begin = tail.rstrip(b"\n").rfind(b"\n")
        if begin >= 0 or size >= end:
            file.seek(0)
            return totals_of(tail[begin + 1 :])
        size *= 4


def _plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def entries(file: BinaryIO) -> Iterator[tuple[int, Entry]]:
    """Place and value of each, without header and totals."""
    at = file.tell()
    for text in file:
        if not is_totals(text):
            yield at, entry_of(text)
        at += len(text)
