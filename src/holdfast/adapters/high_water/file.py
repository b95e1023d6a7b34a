"""The ledger's newest head in a separate file (W14, A11), in two slots. Never lowered; flushed only at creation.

A rolled-back ledger is an old, valid ledger: only a record outside the ledger reveals it. This file is that record.
"""

import errno
import os
import threading
from hashlib import sha256

from holdfast.errors import Corrupt, Failed
from holdfast.model.revision import Head
from holdfast.ports.disk import Disk

# One slot: magic, number, digest, and the sha256 of those three.
_MAGIC = b"HFMARK1\n"
_NUMBER_BYTES = 8
_DIGEST_CHARS = 64
_BODY_BYTES = len(_MAGIC) + _NUMBER_BYTES + _DIGEST_CHARS
SLOT_BYTES = _BODY_BYTES + 32

# Why both slots are never lost together, though nothing is flushed after creation:
# - A raise writes only the slot that does not hold the newest mark. A process killed in the middle (R02) can damage
#   only that slot; the other one still holds the mark from before the raise.
# - After a power cut the disk may hold any older generation of either slot, because the kernel writes pages back in
#   any order. Each slot starts its own block and is shorter than a sector, the smallest unit a disk writes: every
#   slot is therefore one complete generation, old or new, and both are valid marks.
# - Both slots and the file's name were flushed at creation, and a raise writes in place: later no allocation,
#   length or directory entry is pending.
# A power cut can lose the last raises; a mark that is too low never refuses a valid ledger.
SLOT_EVERY_BYTES = 4096
_FILE_BYTES = SLOT_EVERY_BYTES + SLOT_BYTES

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileHighWater:
    """Opened for each use, so that a restored or removed file is noticed and no handle survives a fork."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        # Threads take turns here. Two processes may both write the older slot; the later write wins. That loses one
        # raise, which is harmless as explained above.
        self._raising = threading.Lock()

    def read(self) -> Head | None:
        try:
            handle = os.open(self.path, os.O_RDONLY | _OPEN)
        except FileNotFoundError:
            return None
        except OSError as trouble:
            raise self._failed(trouble) from trouble
        try:
            return newest(self._slots(handle))
        except OSError as trouble:
            raise self._failed(trouble) from trouble
        finally:
            os.close(handle)

    def raise_to(self, head: Head) -> None:
        if head.number < 1:
            return  # without a revision there is nothing to record
        with self._raising:
            try:
                handle = os.open(self.path, os.O_RDWR | _OPEN)
            except FileNotFoundError:
                self._create(head)
                return
            except OSError as trouble:
                raise self._failed(trouble) from trouble
            try:
                self._raise(handle, head)
            except OSError as trouble:
                raise self._failed(trouble) from trouble
            finally:
                os.close(handle)

    def _raise(self, handle: int, head: Head) -> None:
        slots = self._slots(handle)
        mark = newest(slots)
        if mark is None:
            self._create(head)
        elif head.number > mark.number:
            older = 0 if slots[1] == mark else 1
            content = encode(head)
            if os.pwrite(handle, content, older * SLOT_EVERY_BYTES) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _create(self, head: Head) -> None:
        """Complete from the start, and flushed together with its directory: the only flush of this file."""
        content = encode(head)
        self._disk.replace(self.path, content.ljust(SLOT_EVERY_BYTES, b"\0") + content, 0o600)

    def _slots(self, handle: int) -> tuple[Head | None, Head | None]:
        """The head in each slot. An empty file has none; any other file must have one valid slot."""
        content = os.pread(handle, _FILE_BYTES, 0)
        slots = decode(content[:SLOT_BYTES]), decode(content[SLOT_EVERY_BYTES:])
        if content and newest(slots) is None:
            raise Corrupt(
                f"{self.path}, which records the newest committed revision, is damaged",
                remedy="compare the ledger's head with the revision that the agents report (`holdfast hub check`); "
                f"if the ledger is not older, delete {self.path}: the next commit writes it again",
                code="high_water_damaged",
            )
        return slots

    def _failed(self, trouble: OSError) -> Failed:
        if trouble.errno in (errno.ENOSPC, errno.EDQUOT):  # copy-on-write file systems need space for this too
            return Failed(
                f"no space is left for {self.path}; its recorded revision is unchanged",
                remedy=f"free space on the file system of {self.path}",
                code="no_space",
            )
        return Failed(
            f"cannot use {self.path}: {trouble.strerror}",
            remedy="check its disk and that it is a regular file of this user; then repeat the command",
            code="disk_failed",
        )


def newest(slots: tuple[Head | None, Head | None]) -> Head | None:
    return max((head for head in slots if head), key=lambda head: head.number, default=None)


def encode(head: Head) -> bytes:
    digest = head.digest.encode("ascii")
    assert len(digest) == _DIGEST_CHARS, "a head digest is a sha256 in hex"
    body = _MAGIC + head.number.to_bytes(_NUMBER_BYTES, "big") + digest
    return body + sha256(body).digest()


def decode(slot: bytes) -> Head | None:
    """None unless it is exactly what `encode` wrote."""
    body, checksum = slot[:_BODY_BYTES], slot[_BODY_BYTES:]
    if not body.startswith(_MAGIC) or sha256(body).digest() != checksum:
        return None
    number, digest = body[len(_MAGIC) : -_DIGEST_CHARS], body[-_DIGEST_CHARS:]
    return Head(int.from_bytes(number, "big"), digest.decode("latin-1"))  # latin-1 also decodes a forged slot
