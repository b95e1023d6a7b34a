"""A place that stores the objects of backups: small, immutable, named by what they are (model/backup_key.py)."""

from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.model.fleet import Storage

# attached: usable · missing: not there, another one is there, or it does not answer · full: reads, takes nothing more ·
# read_only: reads, takes nothing · refused: there, but not for this caller · failing: its disk reports errors
TargetCondition = Literal["attached", "missing", "full", "read_only", "refused", "failing"]


class StoredObject(Struct, frozen=True):
    key: str
    size_bytes: int


class TargetState(Struct, frozen=True, omit_defaults=True):
    """What a look found. Objects can be read if it is attached, full or read_only."""

    state: TargetCondition
    reason: str = ""  # for people; "" if it is attached
    free_bytes: int | None = None  # that objects may still take; None: the target does not say
    durable_id: str = ""  # the one that was found there, also if it is another one than expected


class Prunable(Struct, frozen=True):
    """Proof that this object may be deleted from targets: no backup that is kept needs it. Only gate/copies.py makes
    it."""

    key: str


class Mountable(Struct, frozen=True):
    """Proof that this file system may be mounted as the storage target of this name. Only gate/mounts.py makes it."""

    name: str
    uuid: str


class BackupTarget(Protocol):
    async def put(self, key: str, content: bytes) -> None:
        """Complete and durable on return, or not there. The same object again: nothing to do. If other bytes lie under
        the key, they are damaged: Conflict, and they stay as they are."""
        ...

    async def get(self, key: str) -> bytes | None:
        """None: not there. The caller compares the digest."""
        ...

    async def has(self, keys: Collection[str]) -> set[str]:
        """Those of the keys that are there."""
        ...

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """All objects whose keys begin so, sorted by key."""
        ...

    async def delete(self, key: str, proof: Prunable) -> None:
        """Does nothing if it is not there."""
        ...

    async def look(self) -> TargetState:
        """Cheap, and answers within seconds whatever the target does: asked every few seconds (H-49)."""
        ...

    async def close(self) -> None: ...


# A declared target, its opened credentials (b"" without any), and the proof for one that is mounted. Raises Invalid if
# that cannot be a target.
OpenTarget = Callable[[Storage, bytes, Mountable | None], BackupTarget]
