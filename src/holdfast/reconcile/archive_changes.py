"""What is done to a directory that has an earlier tree so that it has a later one. Pure.

`olds`: what the thing at one place in walk order is in the earlier tree, and in each tree that an interrupted update
was on its way to; None: nothing. Where they differ, any of them may be there, or something between.
"""

from collections.abc import Sequence
from enum import Enum, auto

from holdfast.model.archive import Entry, Part

Olds = Sequence[Entry | None]


class Deed(Enum):
    SAME = auto()
    REMOVE = auto()
    MAKE = auto()  # nothing is there, or something of another kind that is removed before
    DRESS = auto()  # owner, mode, times and attributes
    PARTS = auto()  # those of `parts_to_write`, in place
    REWRITE = auto()  # the content, in place: other names of the file see it too


def deed(olds: Olds, new: Entry | None, has_same_parts: bool) -> Deed:
    """`has_same_parts`: all trees have parts of the same size."""
    if new is None:
        return Deed.REMOVE
    known = [old for old in olds if old is not None and _kind(old) == _kind(new)]
    if len(known) < len(olds):
        return Deed.MAKE
    if new.link:
        return Deed.SAME if all(old.link == new.link for old in known) else Deed.MAKE
    is_dressed = all(_look(old) == _look(new) for old in known)
    if new.type == "symlink":
        return Deed.SAME if is_dressed and all(old.target == new.target for old in known) else Deed.MAKE
    if new.type == "dir" or all(_content(old) == _content(new) for old in known):
        return Deed.SAME if is_dressed else Deed.DRESS
    is_long = has_same_parts and bool(new.parts) and all(old.parts for old in known)
    return Deed.PARTS if is_long else Deed.REWRITE


def parts_to_write(olds: Olds, new: Entry, part_bytes: int) -> list[int]:
    """Numbers of parts of a long file that may not have their new content, or not the same holes."""
    known = [old for old in olds if old is not None]
    wrong = {number for old in known for number in _other_holes(old, new, part_bytes)}
    found = []
    for number, part in enumerate(new.parts):
        if number in wrong or not all(number < len(old.parts) and _is_same(old.parts[number], part) for old in known):
            found.append(number)
    return found


def _kind(entry: Entry) -> tuple[str, bool]:
    return entry.type, bool(entry.link)


def _look(entry: Entry) -> tuple[object, ...]:
    return entry.mode, entry.uid, entry.gid, entry.mtime_ns, entry.xattrs


def _content(entry: Entry) -> tuple[object, ...]:
    return entry.size, entry.sha256, [(part.size, part.sha256) for part in entry.parts], entry.data


def _is_same(one: Part, other: Part) -> bool:
    return one.sha256 == other.sha256 and one.size == other.size


def _other_holes(old: Entry, new: Entry, part_bytes: int) -> set[int]:
    if old.data == new.data:
        return set()
    before, after = _by_part(old, part_bytes), _by_part(new, part_bytes)
    return {number for number in before.keys() | after.keys() if before.get(number) != after.get(number)}


def _by_part(entry: Entry, part_bytes: int) -> dict[int, list[tuple[int, int]]]:
    """Where the data of each part begins and ends."""
    found: dict[int, list[tuple[int, int]]] = {}
    for begin, length in entry.data or ((0, entry.size),):
        for number in range(begin // part_bytes, -(-(begin + length) // part_bytes)):
            first = number * part_bytes
            found.setdefault(number, []).append((max(begin, first), min(begin + length, first + part_bytes)))
    return found
