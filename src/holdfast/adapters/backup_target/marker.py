"""The marker of a target: a file in it with the target's durable id. What has no marker of ours is not the target.

The mount point of a disk that is not mounted is an empty directory of the system disk: it has no marker, so nothing is
written there. A marker also tells whether the directory lay on another file system than the system's own when it was
attached; a copy of the whole directory on the system disk is not the target.
"""

import os
import re
from contextlib import suppress

from msgspec import Struct

from holdfast.adapters.backup_target import object_files
from holdfast.errors import Conflict, Invalid

NAME = ".holdfast-target"
BYTES = 4096  # as long as a block: a shorter file may lie in what the kernel keeps in memory of a directory
ID_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=,-]{0,199}")
_TITLE = "backup target of Holdfast"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Marker(Struct, frozen=True):
    durable_id: str
    separate: bool = False  # it was on another file system than /


def check_id(durable_id: str) -> str:
    if ID_FORM.fullmatch(durable_id) is None:
        raise Invalid(
            f"{durable_id[:60]!r} is not a durable id of a backup target",
            remedy="use letters, digits and . _ : @ / + = , - (at most 200), for example a UUID or server:export",
        )
    return durable_id


def write(marker: Marker) -> bytes:
    text = f"{_TITLE}\nid {marker.durable_id}\nseparate {'yes' if marker.separate else 'no'}\n"
    return text.encode().ljust(BYTES - 1, b"#") + b"\n"


def parse(content: bytes) -> Marker | None:
    """None: it is no marker."""
    lines = content.decode("ascii", "replace").split("\n")
    if len(lines) < 3 or lines[0] != _TITLE or not lines[1].startswith("id "):
        return None
    durable_id = lines[1].removeprefix("id ")
    if ID_FORM.fullmatch(durable_id) is None:
        return None
    return Marker(durable_id, lines[2] == "separate yes")


def read(root: int) -> Marker | None:
    """Read from the disk, not from memory: a disk that was pulled out answers with an error."""
    try:
        handle = os.open(NAME, _READ, dir_fd=root)
    except FileNotFoundError:
        return None
    try:
        with suppress(OSError):  # a file system in memory
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return parse(os.pread(handle, BYTES, 0))
    finally:
        os.close(handle)


def place(root: int, durable_id: str) -> None:
    """Make this directory the target of that id. One that is another target already stays it."""
    check_id(durable_id)
    separate = os.fstat(root).st_dev != os.stat("/").st_dev
    found = read(root)
    if found is None and object_files.store(root, NAME, write(Marker(durable_id, separate))):
        return
    found = found or read(root)
    if found is None or found.durable_id != durable_id:
        other = found.durable_id if found is not None else "unreadable"
        raise Conflict(
            f"this directory is a backup target already, with another id ({other})",
            remedy="attach it under that id, or choose an empty directory",
            code="other_target",
        )
