"""How many bytes of the disk checkpoints hold. `.held-<id>` has those of one copy that no older copy has.

Copies share files by hard links, so that the sum needs a look at every file of every copy. Each copy is looked at once,
when the sum is next asked for; what a deleted copy shared with others is passed on to one of them.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.adapters.storage import permission, tree

HALF = ".half-"  # of the name of an incomplete copy
PREFIX = ".held-"


def of_shelf(shelf: int) -> int:
    """Of all copies of one service, and of the files that describe them."""
    known = _looked_at(shelf)
    with os.scandir(shelf) as entries:
        return sum(known.values()) + sum(_bytes(entry.stat(follow_symlinks=False)) for entry in entries)


def pass_on(shelf: int, id: str) -> None:
    """Before a copy is deleted: what counted for it and stays counts for another one."""
    others = [other for other in copies(shelf)[0] if other != id]
    if _read(shelf, id) is not None and others:
        known = _looked_at(shelf)
        _keep(shelf, others[0], known[others[0]] + known[id] - _own(shelf, [id])[id])
    with suppress(FileNotFoundError):
        os.unlink(PREFIX + id, dir_fd=shelf)


def copies(shelf: int) -> tuple[list[str], list[str]]:
    """Complete ones by their ids, and incomplete ones by their names."""
    names = [name for name in sorted(os.listdir(shelf)) if tree.exists(shelf, name) and tree.is_directory(shelf, name)]
    return [name for name in names if permission.is_id(name)], [name for name in names if name.startswith(HALF)]


def _looked_at(shelf: int) -> dict[str, int]:
    """It is kept, unless another copy was begun meanwhile: its links are not among those that were seen."""
    ids, halves = copies(shelf)
    known = {id: _read(shelf, id) for id in ids}
    found = _own(shelf, [*(id for id in ids if known[id] is None), *halves])
    for id in found.keys() & known.keys() if copies(shelf) == (ids, halves) else ():
        _keep(shelf, id, found[id])
    return {id: held_bytes for id, held_bytes in known.items() if held_bytes is not None} | found


def _own(shelf: int, names: Sequence[str]) -> dict[str, int]:
    """What these directories have, and no other one; what they share counts for the first of them."""
    found, shared = dict.fromkeys(names, 0), dict[int, tuple[str, int]]()  # by inode: the first one, names not seen
    for name in names:
        for about in _files(shelf, name):
            first, left = shared.get(about.st_ino, (name, about.st_nlink))
            if left == 1:
                found[first] += _bytes(about)
            shared[about.st_ino] = first, left - 1
    return found


def _files(shelf: int, name: str) -> Iterator[os.stat_result]:
    try:
        top = tree.opened(name, shelf)
    except FileNotFoundError:  # deleted, or completed, meanwhile
        return
    try:
        yield from (visit.about for visit in tree.walk(top) if visit.kind == "entry")
    finally:
        os.close(top)


def _bytes(about: os.stat_result) -> int:
    return about.st_blocks * 512 if stat.S_ISREG(about.st_mode) else 0


def _read(shelf: int, id: str) -> int | None:
    """None: it was not looked at yet, or a crash left half of the number."""
    with suppress(OSError, ValueError):
        file = os.open(PREFIX + id, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=shelf)
        with os.fdopen(file, "rb") as text:
            number, end, rest = text.read(64).partition(b"\n")
            return int(number) if end and not rest else None
    return None


def _keep(shelf: int, id: str, held_bytes: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(PREFIX + id, flags, 0o600, dir_fd=shelf), "wb") as file:
        file.write(b"%d\n" % held_bytes)
