"""The manifests that a directory has and was on its way to, as an update keeps them in its home.

`tree`: the directory has exactly what this says. `update-N`: written and synced before an update touched anything. If
one is there, that update did not end: where it differs from `tree`, any of the two may be there, or something between.
Each file has the entries in order, the totals, and one Kept; its bytes were judged before it was kept.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap

import msgspec
from msgspec import Struct

from holdfast.adapters.archive.base import key_of
from holdfast.errors import Conflict
from holdfast.model.archive import LINE_BYTES_MAX, Entry, damaged, entry_of, is_totals, order_key, totals_of

TREE, NEXT = "tree", "tree.new"
_WORK = re.compile(r"update-[0-9]+\Z")


class Kept(Struct, frozen=True):
    """The last line. `digest`: of the manifest as stored. `inode`: of the directory."""

    digest: str
    part_bytes: int
    inode: int


class Lines:
    """Entries in walk order, in a file that does not change."""

    def __init__(self, path: str, is_kept: bool) -> None:
        with open(path, "rb", opener=_plain) as file:
            if not os.fstat(file.fileno()).st_size:
                raise damaged("its end is missing")
            self.bytes = mmap(file.fileno(), 0, access=ACCESS_READ)
        end = len(self.bytes)
        if self.bytes[end - 1] != 10:
            raise damaged("its end is missing")
        if is_kept:
            begin = self.bytes.rfind(b"\n", 0, end - 1) + 1
            self.kept = msgspec.json.decode(self.bytes[begin:end], type=Kept)
            end = begin
        self.end = self.bytes.rfind(b"\n", 0, end - 1) + 1
        self.totals = totals_of(self.bytes[self.end : end])

    def close(self) -> None:
        self.bytes.close()

    def after(self, place: int) -> int:
        """Where the next line begins."""
        end = self.bytes.find(b"\n", place, self.end) + 1
        if not 0 < end - place <= LINE_BYTES_MAX:
            raise damaged("a line is too long")
        return end

    def entry(self, place: int) -> Entry:
        text = self.bytes[place : self.after(place)]
        if is_totals(text):
            raise damaged("it goes on after its end")
        return entry_of(text)

    def find(self, path: bytes, is_directory: bool) -> Entry | None:
        wanted = order_key(path, is_directory) if path else b""
        low, high = 0, self.end
        while low < high:
            begin = max(self.bytes.rfind(b"\n", low, (low + high) // 2) + 1, low)
            entry = self.entry(begin)
            key = key_of(entry)
            if key == wanted:
                return entry
            low, high = (self.after(begin), high) if key < wanted else (low, begin)
        return None


def opened(home: str) -> list[Lines]:
    """`tree`, then what was on its way."""
    try:
        tree = Lines(os.path.join(home, TREE), True)
    except FileNotFoundError:
        raise other("no archive was unpacked there that is kept") from None
    return [tree, *(Lines(os.path.join(home, name), True) for name in _works(home))]


def begin(home: str, kept: Kept, olds: Sequence[Lines]) -> str:
    """NEXT is what the directory is on its way to; answers its name. None that is there is replaced: what an update did
    depends on all that it found."""
    works = _works(home)
    for name, lines in zip(works, olds[1:], strict=True):
        if lines.kept == kept:
            os.unlink(os.path.join(home, NEXT))
            return name
    name = f"update-{max(map(_number, works), default=0) + 1}"
    write(home, kept, name)
    return name


def write(home: str, kept: Kept, name: str) -> None:
    """NEXT, complete and durable, gets this name."""
    path = os.path.join(home, NEXT)
    with open(path, "ab", opener=_plain) as file:
        file.write(msgspec.json.encode(kept) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(path, os.path.join(home, name))
    _sync(home)


def complete(home: str, name: str) -> None:
    """The directory has this, durably."""
    os.rename(os.path.join(home, name), os.path.join(home, TREE))
    _sync(home)
    for left in _works(home):
        os.unlink(os.path.join(home, left))


def forget(home: str) -> None:
    """Before another directory is filled."""
    names = [name for name in (TREE, NEXT, *_works(home)) if os.path.lexists(os.path.join(home, name))]
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(home, name))
    if names:
        _sync(home)


def other(why: str) -> Conflict:
    return Conflict(
        f"the directory cannot be brought up to date: {why}",
        remedy="the next attempt copies all of it again",
        code="not_the_tree",
    )


def _works(home: str) -> list[str]:
    return sorted((name for name in os.listdir(home) if _WORK.match(name)), key=_number)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
