"""How many bytes of the disk checkpoints hold. `.held` lists for each copy those that no older copy has.

Copies share files by hard links, so that the sum needs a look at every file of every copy. Each copy is looked at once,
when the sum is next asked for; what a deleted copy shared with others is passed on to one of them. The list saves only
time: if it is lost, or names a copy that is gone, because a full disk or a crash left an older one, all are looked at.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from holdfast.adapters.storage import permission, tree

HALF = ".half-"  # of the name of an incomplete copy
LIST = ".held"

_decoded = msgspec.json.Decoder(dict[str, int]).decode


def of_shelf(shelf: int) -> int:
    """Of all copies of one service, and of the files that describe them."""
    return sum(_looked_at(shelf).values()) + sum(map(_bytes, tree.here(shelf)))


def pass_on(shelf: int, id: str) -> None:
    """Before a copy is deleted: what counted for it and stays counts for another one."""
    if id not in _listed(shelf):
        return
    known = _looked_at(shelf)
    held = {other: known[other] for other in copies(shelf)[0] if other != id and other in known}
    for heir in list(held)[:1]:
        held[heir] += known.get(id, 0) - _own(shelf, [id])[id]
    _keep(shelf, held)


def copies(shelf: int) -> tuple[list[str], list[str]]:
    """Complete ones by their ids, and incomplete ones by their names."""
    names = tree.directories(shelf)
    return [name for name in names if permission.is_id(name)], [name for name in names if name.startswith(HALF)]


def _looked_at(shelf: int) -> dict[str, int]:
    """It is kept, unless another copy was begun meanwhile: its links are not among those that were seen."""
    ids, halves = copies(shelf)
    listed = _listed(shelf)
    known = listed if listed.keys() <= set(ids) else {}
    known = known | _own(shelf, [*(id for id in ids if id not in known), *halves])
    held = {id: known[id] for id in ids}
    if held != listed and copies(shelf) == (ids, halves):
        _keep(shelf, held)
    return known


def _own(shelf: int, names: Sequence[str]) -> dict[str, int]:
    """What these directories have, and no other one; what they share counts for the first of them."""
    found, shared = dict.fromkeys(names, 0), dict[int, tuple[str, int]]()  # by inode: the first one, names not seen
    for name in names:
        for about in tree.unless_moved(_files(shelf, name)):
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


def _listed(shelf: int) -> dict[str, int]:
    with suppress(OSError, msgspec.MsgspecError):
        file = os.open(LIST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=shelf)
        with os.fdopen(file, "rb") as text:
            return _decoded(text.read())
    return {}


def _keep(shelf: int, held: dict[str, int]) -> None:
    """If the disk can: on a full one checkpoints are deleted all the same."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        with os.fdopen(os.open(LIST + ".new", flags, 0o600, dir_fd=shelf), "wb") as file:
            file.write(msgspec.json.encode(held))
        name_list(shelf)


def name_list(shelf: int) -> None:
    os.rename(LIST + ".new", LIST, src_dir_fd=shelf, dst_dir_fd=shelf)
