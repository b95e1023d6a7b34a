"""The head of an audit log in a separate file: which entries the log must contain, also after a power cut.

The file has two slots, written alternately. Each is shorter than a sector and starts its own block, so a crash damages
at most the slot being written.
"""

import os
import struct
from hashlib import sha256

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.audit import NO_ENTRIES, AuditHead
from holdfast.ports.disk import Disk

_MAGIC = b"HFAUDIT1"
_BODY = struct.Struct(">8sQQQQ32s32s36s")
SLOT_BYTES = _BODY.size + 32
SLOT_EVERY_BYTES = 4096
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Mark(Struct, frozen=True):
    """`newest` holds while the machine runs (`boot`); after a power cut only `synced` holds, up to `synced_bytes`."""

    turn: int = 0
    synced: AuditHead = NO_ENTRIES
    synced_bytes: int = 0
    newest: AuditHead = NO_ENTRIES
    boot: str = ""

    def expected(self, boot: str) -> AuditHead:
        return self.newest if boot == self.boot else self.synced


def read(path: str) -> Mark | None:
    """None if the file does not exist; Corrupt if both slots are damaged."""
    try:
        handle = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        return None
    try:
        content = os.pread(handle, SLOT_EVERY_BYTES + SLOT_BYTES, 0)
    finally:
        os.close(handle)
    found = [mark for mark in (decode(content[:SLOT_BYTES]), decode(content[SLOT_EVERY_BYTES:])) if mark]
    if not found:
        raise Corrupt(
            f"{path}, which stores the newest audit entry, is damaged",
            remedy="keep it as evidence; compare the log with the hub's copy: holdfast audit --node NAME --verify",
            code="audit_broken",
        )
    return max(found, key=lambda mark: mark.turn)


class HeadFile:
    """Writes in place and never flushes: the log flushes entries before this file names them."""

    def __init__(self, path: str, first: Mark, disk: Disk) -> None:
        content = encode(first)
        disk.replace(path, content.ljust(SLOT_EVERY_BYTES, b"\0") + content, 0o600)
        self._handle = os.open(path, os.O_WRONLY | _OPEN)
        self._turn = first.turn

    def write(self, synced: AuditHead, synced_bytes: int, newest: AuditHead, boot: str) -> None:
        self._turn += 1
        content = encode(Mark(self._turn, synced, synced_bytes, newest, boot))
        os.pwrite(self._handle, content, self._turn % 2 * SLOT_EVERY_BYTES)

    def close(self) -> None:
        os.close(self._handle)


def encode(mark: Mark) -> bytes:
    body = _BODY.pack(
        _MAGIC,
        mark.turn,
        mark.synced.number,
        mark.synced_bytes,
        mark.newest.number,
        bytes.fromhex(mark.synced.digest),
        bytes.fromhex(mark.newest.digest),
        mark.boot.encode("ascii", "replace"),
    )
    return body + sha256(body).digest()


def decode(slot: bytes) -> Mark | None:
    body, checksum = slot[: _BODY.size], slot[_BODY.size : SLOT_BYTES]
    if not body.startswith(_MAGIC) or sha256(body).digest() != checksum:
        return None
    _, turn, synced, synced_bytes, newest, synced_digest, newest_digest, boot = _BODY.unpack(body)
    return Mark(
        turn,
        AuditHead(synced, synced_digest.hex()),
        synced_bytes,
        AuditHead(newest, newest_digest.hex()),
        boot.rstrip(b"\0").decode("ascii", "replace"),
    )
