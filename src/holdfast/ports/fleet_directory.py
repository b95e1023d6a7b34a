"""Read access to a fleet directory: list a directory, read one file. Never writes.

A path is relative to the fleet directory and uses `/`. Every answer is bounded. Anything that is not a plain file
inside the directory is refused by name, so that an untrusted fleet directory can be read safely.
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
        "is a symbolic link; Holdfast follows no links, so that it reads nothing outside the fleet directory",
        "replace the link with the file it points to",
    ),
    "other": ("is not a plain file (a pipe, a socket or a device)", "remove it, or put a plain file in its place"),
}


class Entry(Struct, frozen=True, order=True, gc=False):
    """One entry of a directory, described without opening it; `size_bytes` is set for files only."""

    path: str
    kind: Kind
    size_bytes: int = 0


class Unreadable(Invalid):
    """This path cannot be read. It is reported, never skipped: a fleet with a missing file is not that fleet (I-37)."""

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
        remedy="check that this is the fleet directory; split a larger fleet in two",
    )


def too_large(path: str, size_bytes: int, bytes_max: int) -> Unreadable:
    return Unreadable(
        path,
        f"is {size_bytes:,} bytes long; the limit is {bytes_max:,} bytes",
        remedy="shorten the file, or check that it is the right file",
    )


def absent(path: str) -> Unreadable:
    return Unreadable(path, "does not exist", remedy="create it; if an editor was saving it, run the command again")


class FleetDirectory(Protocol):
    """Two calls give the same answer as long as the directory is not edited."""

    @property
    def name(self) -> str:
        """The directory as the operator typed it, for messages."""
        ...

    def entries(self, directory: str = "") -> tuple[Entry, ...]:
        """List the direct children, sorted by path; raises `Unreadable` if the list is not complete."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes:
        """Read one plain file whole; raises `Unreadable` if it is anything else, longer, or changes meanwhile."""
        ...
