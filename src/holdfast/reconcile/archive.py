"""What goes into an archive: which files, which of them again, and which packs are written again. Pure."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import get_args

from holdfast.model.archive import PART_BYTES, Entry, PackRow, PartBytes
from holdfast.ports.archive import Rules

DEFAULT_SET = ("*.toml", "*.db", "*.pem")  # M-91
SIDE_FILES = ("-wal", "-shm", "-journal")  # of an SQLite database; its copy needs none of them
SQLITE_MAGIC = b"SQLite format 3\0"
PARTS_WANTED = 1 << 16
LIVE_SHARE_MIN = 0.5  # a pack of which less is needed is written again
WILD = frozenset("*?[")


def is_excluded(rules: Rules, path: str) -> bool:
    """A directory that is excluded is not entered."""
    return bool(rules.exclude) and _matches_any(rules.exclude, path)


def is_taken(rules: Rules, path: str) -> bool:
    """A file or symlink that is not excluded."""
    if rules.whole or any(path.startswith(f"{volume}/") for volume in rules.volumes):
        return True
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in DEFAULT_SET) or _matches_any(rules.include, path)


def _matches_any(patterns: Sequence[str], path: str) -> bool:
    names = path.split("/")
    return any(_matches(pattern, names) for pattern in patterns)


def _matches(pattern: str, names: Sequence[str]) -> bool:
    """`*.log`, one wild name, fits at any depth. Anything else is a path from the top: it fits that and all below
    it."""
    wanted = pattern.strip("/").split("/")
    if len(wanted) == 1 and WILD & set(pattern):
        return any(fnmatchcase(name, pattern) for name in names)
    return len(wanted) <= len(names) and all(map(fnmatchcase, names, wanted))


def is_unchanged(before: Entry | None, seen: tuple[int, ...], usable: "Usable") -> bool:
    """The content that was stored is the content of the file, without reading it."""
    return before is not None and bool(seen) and before.seen == seen and usable.has(before)


def keeps(before: Entry | None, sha256: str, usable: "Usable") -> str:
    """The pack that has this content already, for a file that was read; "" if none."""
    same = before is not None and before.sha256 == sha256 and before.pack and usable.has(before)
    return before.pack if before is not None and same else ""


def keeps_part(before: Entry | None, number: int, sha256: str, usable: "Usable") -> str:
    if before is None or number >= len(before.parts):
        return ""
    part = before.parts[number]
    return part.pack if part.sha256 == sha256 and usable.is_usable(part.pack) else ""


def part_bytes_for(size_bytes: int) -> PartBytes:
    """Of files that are stored again and again while they change in place: small, and not more of them than a manifest
    bears that is read each time. `size_bytes`: of all files; one of them may have all of it."""
    fits = (part_bytes for part_bytes in get_args(PartBytes) if size_bytes <= part_bytes * PARTS_WANTED)
    return next(fits, PART_BYTES)


class Usable:
    """Packs whose content need not be stored again: every target has them, and they are not mostly dead
    (`tidy`)."""

    def __init__(self, rows: Iterable[PackRow], alive: Sequence[str] | None, tidy: bool = True) -> None:
        live = None if alive is None else frozenset(alive)
        self.rows = {row.digest: row for row in rows if live is None or row.digest in live}
        self._good = {digest for digest, row in self.rows.items() if not (tidy and is_mostly_dead(row))}

    def is_usable(self, pack: str) -> bool:
        return pack in self._good

    def has(self, entry: Entry) -> bool:
        if not entry.parts:
            return not entry.pack or entry.pack in self._good
        return all(pack in self._good for pack in entry.packs())


def is_mostly_dead(row: PackRow) -> bool:
    return row.live_bytes < LIVE_SHARE_MIN * row.plain_bytes
