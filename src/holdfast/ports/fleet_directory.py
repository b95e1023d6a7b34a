"""What we ask of the place where a fleet is written down: list a directory, read one file. Never writes, never guesses.

A path is relative to the fleet directory and uses `/`. Every answer is bounded, and whatever is not a plain file
inside the directory is refused by name, so that a fleet directory from a stranger can be looked at safely.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.errors import Invalid

Kind = Literal["file", "directory", "symlink", "other"]

ENTRIES_MAX = 50_000  # in one directory, so also the number of services

REFUSALS: Mapping[Kind, tuple[str, str]] = {
    "directory": ("is a directory where a file is expected", "rename the directory, or move it elsewhere"),
    "symlink": (
        "is a symbolic link, and links are not followed, so that nothing outside the fleet directory is read",
        "put what it points to in its place",
    ),
    "other": ("is not a plain file (a pipe, a socket or a device)", "remove it, or put a plain file in its place"),
}


class Entry(Struct, frozen=True, order=True, gc=False):
    """One thing in a directory, described without opening it; `size_bytes` counts for files only."""

    path: str
    kind: Kind
    size_bytes: int = 0


class Unreadable(Invalid):
    """This one path cannot be read. It is reported, never skipped: a part of a fleet is not a fleet (I-37)."""

    code = "unreadable_file"

    def __init__(self, path: str, what: str, *, remedy: str) -> None:
        super().__init__(f"{path or 'the fleet directory'}: {what}", remedy=remedy)
        self.path = path
        self.what = what


def refused(path: str, kind: Kind) -> Unreadable:
    what, remedy = REFUSALS[kind]
    return Unreadable(path, what, remedy=remedy)


def overflowing(path: str) -> Unreadable:
    return Unreadable(
        path,
        f"holds more than {ENTRIES_MAX:,} entries",
        remedy="check that this is the directory you mean; a fleet larger than that is split in two",
    )


def too_large(path: str, size_bytes: int, bytes_max: int) -> Unreadable:
    return Unreadable(
        path,
        f"is {size_bytes:,} bytes long; at most {bytes_max:,} are read",
        remedy="make it shorter, or check that it is the file you mean",
    )


def absent(path: str) -> Unreadable:
    return Unreadable(path, "does not exist", remedy="create it, or run the command again if it was just being saved")


class FleetDirectory(Protocol):
    """Reading is repeatable: two calls answer the same as long as nobody edits the directory."""

    @property
    def name(self) -> str:
        """The directory as the operator typed it, for messages."""
        ...

    def entries(self, directory: str = "") -> tuple[Entry, ...]:
        """List the direct children, sorted by path; `Unreadable` when the whole list cannot be had."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes:
        """Read one plain file whole; `Unreadable` when it is anything else, or longer, or changes meanwhile."""
        ...
