"""When a disk is filling up, and when it has room again; shared by hub and agents. Pure."""

import shlex
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from holdfast.model.disk_room import DiskRoom
from holdfast.model.size import size

CODE, OVER = "disk_filling", "disk_has_room"


class Limit(Struct, frozen=True):
    """A disk has less room than this: a smaller part of it is free, and less than a fixed amount. A tenth of a large
    disk lasts long."""

    part: float
    free_bytes: int
    free_files: int


LOW = Limit(0.10, 20 << 30, 1_000_000)  # it is filling up
ENOUGH = Limit(0.15, 30 << 30, 1_500_000)  # and it is until it has this much of both


class Filling(Struct, frozen=True):
    """A file system that is filling up; `name` is the first of its directories."""

    name: str
    message: str
    path: str


def filling(rooms: Iterable[DiskRoom], before: Collection[str]) -> Iterator[Filling]:
    """`before`: the names of those that were filling up at the last look. One finding for each file system."""
    by_device: dict[int, list[DiskRoom]] = {}
    for room in rooms:
        by_device.setdefault(room.device, []).append(room)
    for shared in by_device.values():
        first = shared[0]
        limit = ENOUGH if any(room.name in before for room in shared) else LOW
        texts = list(_short(first, limit))
        if texts:
            places = " and ".join(dict.fromkeys(room.path for room in shared))
            yield Filling(first.name, f"the disk of {places} is filling up: {', '.join(texts)}", first.path)


def remedy(path: str, machine: str) -> str:
    quoted = shlex.quote(path)
    return f"`df -h {quoted}` and `df -i {quoted}` on {machine} show it; delete what is not needed, or enlarge the disk"


def _short(room: DiskRoom, limit: Limit) -> Iterator[str]:
    """What there is less of than the limit, in words that stay the same while little changes."""
    all_bytes, all_files = room.used_bytes + room.free_bytes, room.used_files + room.free_files
    if room.free_bytes < min(limit.part * all_bytes, limit.free_bytes):
        yield f"{room.free_bytes / all_bytes:.0%} free ({size(room.free_bytes)} of {size(all_bytes)})"
    if room.free_files < min(limit.part * all_files, limit.free_files):
        yield f"{room.free_files / all_files:.0%} of its inodes free"
