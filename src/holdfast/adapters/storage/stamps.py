"""Stamps: which state of which file a copy has. A file whose stamp is known has not changed since it was copied.

A stamp covers path, number, size and times. No program can set the time of the last change (ctime), so that a file
cannot change and keep its stamp.
"""

import hashlib
import os
from contextlib import suppress

from holdfast.adapters.walking import settled

PREFIX = ".stamps-"
_MAGIC = b"holdfast-stamps-1\n"
_BYTES = 16
_DIGEST = 32
RECENT_NS = settled.RECENT_NS

NONE: frozenset[bytes] = frozenset()


def stamp(path: str, about: os.stat_result) -> bytes:
    said = f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_mode} {path}"
    return hashlib.blake2b(os.fsencode(said), digest_size=_BYTES).digest()


def is_recent(about: os.stat_result, before_ns: int) -> bool:
    """`before_ns`: a time before `about` was read."""
    return about.st_ctime_ns > before_ns - RECENT_NS


def read(shelf: int, id: str) -> frozenset[bytes]:
    """None at all if the list is missing or damaged: then every file is compared."""
    with suppress(OSError):
        file = os.open(name(id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=shelf)
        with os.fdopen(file, "rb") as stored:
            text = stored.read()
        begin = len(_MAGIC) + _DIGEST
        if text.startswith(_MAGIC) and hashlib.sha256(text[begin:]).digest() == text[len(_MAGIC) : begin]:
            return frozenset(text[at : at + _BYTES] for at in range(begin, len(text), _BYTES))
    return NONE


def keep(shelf: int, id: str, found: set[bytes]) -> None:
    """Only after the copy itself is durable."""
    text = b"".join(found)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name(id), flags, 0o600, dir_fd=shelf), "wb") as file:
        file.write(_MAGIC + hashlib.sha256(text).digest() + text)
        file.flush()
        os.fsync(file.fileno())


def drop_stamps(shelf: int, id: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name(id), dir_fd=shelf)


def name(id: str) -> str:
    return PREFIX + id
