"""The newest head in a file beside the ledger (W14, A11). Two slots, written in turn; never lowers, never flushes.

A rolled-back ledger is an old, valid ledger: only something outside it can tell. This file is that something.
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

# Why no mark is ever lost with both slots, though nothing is flushed after creation:
# - A raise writes only the slot that does not hold the newest mark. A process killed in the middle (R02) can spoil
#   that one slot and no more; the other one still holds the mark from before the raise.
# - After a power cut the disk may hold any older generation of either slot, for the kernel writes pages back when
#   and in which order it likes. Each slot lies at the start of a block of its own and is shorter than a sector, the
#   least a disk writes: every slot is therefore one whole generation, old or new, and both are good marks.
# - Both slots and the file's name were flushed when it was made, and a raise writes in place: later no allocation,
#   no length and no directory entry is waiting to be lost.
# What a power cut can take are the last raises, and a mark that is too low refuses nothing it should not.
SLOT_EVERY_BYTES = 4096
_FILE_BYTES = SLOT_EVERY_BYTES + SLOT_BYTES

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileHighWater:
    """Opened anew for each use, so that a restored or removed file is seen and no handle survives a fork."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        # Threads take turns here. Two processes may both take the older slot; the later write wins, which is one lost
        # raise and, as above, harmless.
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
            return  # no revision is nothing to remember
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
        """Complete from its first moment, and flushed with its directory: the one time this costs a flush."""
        content = encode(head)
        self._disk.replace(self.path, content.ljust(SLOT_EVERY_BYTES, b"\0") + content, 0o600)

    def _slots(self, handle: int) -> tuple[Head | None, Head | None]:
        """What each slot says; an empty file says nothing, any other must have one good slot."""
        content = os.pread(handle, _FILE_BYTES, 0)
        slots = decode(content[:SLOT_BYTES]), decode(content[SLOT_EVERY_BYTES:])
        if content and newest(slots) is None:
            raise Corrupt(
                f"{self.path}, which remembers the newest revision committed here, is damaged",
                remedy="compare the ledger's head with the revision the agents report (holdfast hub check); "
                f"if it is not older, remove {self.path}: the next commit writes it anew",
                code="high_water_damaged",
            )
        return slots

    def _failed(self, trouble: OSError) -> Failed:
        if trouble.errno in (errno.ENOSPC, errno.EDQUOT):  # file systems that copy on write need space for this too
            return Failed(
                f"no space is left for {self.path}; the mark in it is unchanged",
                remedy=f"free space on the file system of {self.path}",
                code="no_space",
            )
        return Failed(
            f"{self.path} cannot be used: {trouble.strerror}",
            remedy="check that it is a plain file of this user and that its disk is well; then repeat the command",
            code="disk_failed",
        )


def newest(slots: tuple[Head | None, Head | None]) -> Head | None:
    return max((head for head in slots if head), key=lambda head: head.number, default=None)


def encode(head: Head) -> bytes:
    digest = head.digest.encode("ascii")
    assert len(digest) == _DIGEST_CHARS, "a head is named by a sha256 in hex"
    body = _MAGIC + head.number.to_bytes(_NUMBER_BYTES, "big") + digest
    return body + sha256(body).digest()


def decode(slot: bytes) -> Head | None:
    """None when it is not, to the last bit, what `encode` wrote."""
    body, checksum = slot[:_BODY_BYTES], slot[_BODY_BYTES:]
    if not body.startswith(_MAGIC) or sha256(body).digest() != checksum:
        return None
    number, digest = body[len(_MAGIC) : -_DIGEST_CHARS], body[-_DIGEST_CHARS:]
    return Head(int.from_bytes(number, "big"), digest.decode("latin-1"))  # of a forged slot too
