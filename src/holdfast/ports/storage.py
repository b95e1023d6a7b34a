"""Data directories of services: measured, created, copied, and destroyed only with a proof (style §6)."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import ImageDirectory

# The acts of the gate that permit a verb; the thing is the path, or `data.<name>`.
MOUNTS = frozenset({"MOUNT", "REACH_HOST"})
SETS_ASIDE = frozenset({"SET_ASIDE"})
OVERWRITES = frozenset({"OVERWRITE_DATA"})


class DataDirectory(Struct, frozen=True):
    name: str  # of the service
    path: str
    files: int  # everything but directories, counted up to a bound
    size_bytes: int
    entries: int  # of any kind, counted up to a bound; 0 means truly empty
    names: tuple[str, ...] = ()  # the first ones directly inside, where it was asked for
    owner: str = ""  # `UID:GID` of the directory itself, where it was asked for


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A whole copy of one service's data on this node: it allows a way back, but is not a backup (V-30)."""

    service: str
    id: str
    path: str
    size_bytes: int
    made_s: float
    left_out: tuple[str, ...] = ()  # what no copy can hold: sockets, devices, other file systems mounted inside
    files: int = 0  # 0 and no size: it has no content, or an older release made it
    off: tuple[str, ...] = ()  # volumes without checkpoints: not in the copy

    @property
    def has_content(self) -> bool:
        return self.size_bytes > 0 or self.files > 0


class Ahead(Struct, frozen=True):
    """What was copied while the service still ran."""

    written_bytes: int
    took_s: float


class Need(Struct, frozen=True):
    """What a checkpoint of one service needs now, and what its disk has. `room_bytes` is what copies may still take."""

    size_bytes: int  # of the data
    files: int
    written_bytes: int  # that a checkpoint would write: what it can share with another takes no space
    room_bytes: int
    disk_bytes: int
    held_bytes: int  # by all checkpoints of this node; 0 where copies share blocks with the data


class Discardable(Struct, frozen=True):
    """Proof that the gate found this checkpoint to be this agent's own scratch. Only gate/copies.py makes it."""

    checkpoint: Checkpoint


class Restorable(Struct, frozen=True):
    """Proof that an order may put this checkpoint in the place of its service's data. Only gate/copies.py makes it."""

    checkpoint: Checkpoint
    order: str

    @property
    def replaced(self) -> str:
        """The id of the checkpoint that the replaced data becomes."""
        return f"restore-{self.order[:16]}"


class Receivable(Struct, frozen=True):
    """Proof that an order may bring a copy from elsewhere here, as this checkpoint. Only gate/copies.py makes it."""

    service: str
    id: str


class Placeable(Struct, frozen=True):
    """Proof that a copy from elsewhere may become the data of its service, which has none here. Only gate/copies.py
    makes it."""

    copy: Receivable


class Purgeable(Struct, frozen=True):
    """Proof that the purge `order` may set the data of this service aside. Only gate/copies.py makes it."""

    service: str
    order: str


class Disposable(Struct, frozen=True):
    """Proof that what the purge `order` set aside may be deleted. Only gate/copies.py makes it."""

    service: str
    order: str


class Returnable(Struct, frozen=True):
    """Proof that what the purge `order` set aside may be put back in its place. Only gate/copies.py makes it."""

    service: str
    order: str


class SetAside(Struct, frozen=True):
    """What one purge set aside, as it is on the disk."""

    service: str
    order: str
    path: str  # of the data there
    size_bytes: int = 0
    files: int = 0
    checkpoints: int = 0
    checkpoints_bytes: int = 0


class NewVolumes(Protocol):
    """What a new volume begins with."""

    def fill(self, service: str, name: str, image: ImageDirectory, owner: str, allowed: Allowed) -> bool:
        """The empty volume takes owner, mode and content of the image's directory: all of it and durably, or nothing.
        With an `owner` (`UID:GID`) everything belongs to that one. Programs lose their set-uid and set-gid bits,
        devices are left out. False: the volume has content already, and is left as it is. Blocks as long as it
        takes."""
        ...

    def own(self, service: str, name: str, owner: str, allowed: Allowed) -> None:
        """Give the volume and everything in it to `owner` (`UID:GID`); symbolic links are not followed. The directory
        itself comes last. The caller stops all writers first. Blocks as long as it takes; may be repeated."""
        ...


class Copies(Protocol):
    """Checkpoints: made, listed, deleted, and put in the place of the data."""

    def need(self, service: str, off: Collection[str] = ()) -> Need | None:
        """Measured now, which takes a look at every file. None if the service has no data."""
        ...

    def copy_ahead(self, service: str, id: str, off: Collection[str], tell: Callable[[int], None]) -> Ahead:
        """Copy the data while programs write into it, and once more what changed meanwhile: the checkpoint of this id
        then copies the rest. It is no checkpoint. `tell` gets the bytes since its last call; if it raises, the copy
        ends. A copy that was begun and not used is continued under another id."""
        ...

    def drop_ahead(self, service: str) -> None:
        """Delete what was copied ahead and is not a checkpoint."""
        ...

    def checkpoint(self, service: str, id: str, at_s: float, off: Collection[str] = ()) -> Checkpoint:
        """Copy all data of a service but the volumes that are `off`. Complete and durable, or absent; the same id again
        returns the same copy. Blocks as long as it takes; one at a time per service, and the caller stops all writers
        first. Checkpoints share files with each other, never with the data: no program may write into a copy."""
        ...

    def checkpoints(self) -> Sequence[Checkpoint]:
        """All complete ones: by service, oldest first."""
        ...

    def discard(self, proof: Discardable) -> None:
        """Permanently. Does nothing if it does not exist."""
        ...

    def receive(self, proof: Receivable) -> str:
        """The path of an empty directory that a copy from elsewhere is written into; it is no checkpoint yet, and what
        an earlier attempt of the same left there is gone. Only root can read it."""
        ...

    def make_received(self, proof: Receivable, volume: str, image: ImageDirectory | None, owner: str) -> str:
        """The path of a volume in it. If it is not there, it is made: with what the image has, as a new volume of a
        service begins. Blocks as long as it takes."""
        ...

    def received(
        self, proof: Receivable, at_s: float, off: Collection[str] = (), drop: Collection[str] = ()
    ) -> Checkpoint:
        """What was written there is complete, but for the names in `drop`, which are deleted: it becomes a checkpoint,
        durably. It holds no volume that is `off`. Done again: the same."""
        ...

    def drop_received(self, proof: Receivable) -> None:
        """Delete what is not complete. Does nothing if there is none."""
        ...

    def resume(self, proof: Receivable) -> str | None:
        """The path of what an earlier `receive` began; None if there is nothing."""
        ...

    def take_in(self, proof: Placeable, drop: Collection[str] = ()) -> None:
        """What was written there becomes the data of the service, durably and in one step, but for the names in `drop`,
        which are deleted. A directory of the service that has content is a Conflict. Done again: nothing more."""
        ...

    def stage(self, proof: Restorable) -> str:
        """Copy the checkpoint beside the data of its service, which is not touched. Complete and durable, or absent;
        answers the mark of the copy, the same one if it is asked again."""
        ...

    def exchange(self, proof: Restorable, staged: str, at_s: float) -> Checkpoint | None:
        """Put the staged copy in the place of the data, and make a checkpoint of what was there: the answer. In one
        step: the data is the old or the restored one. The caller stops all writers first. Done again: nothing more."""
        ...

    def unstage(self, proof: Restorable) -> None:
        """Delete a staged copy that is not needed. Does nothing if there is none."""
        ...


class Purging(Protocol):
    """Data of removed services: set aside, deleted, brought back. `order` is the id of the purge."""

    def aside(self, name: str, order: str) -> str:
        """The path that `condemn` gives to the data."""
        ...

    def condemn(self, proof: Purgeable) -> None:
        """Move the data, its checkpoints and its signed passports durably to where only this order finds them. After
        that, a new directory of that name is safe."""
        ...

    def dispose(self, proof: Disposable) -> None:
        """Delete permanently what one purge set aside. Does nothing if it does not exist."""
        ...

    def set_aside_by(self, name: str) -> Sequence[str]:
        """The ids of the purges whose data of this name is still set aside."""
        ...

    def asides(self) -> Sequence[SetAside]:
        """All of them, measured now up to a bound: for what the journal does not know."""
        ...

    def bring_back(self, proof: Returnable) -> None:
        """Undo what the purge condemned: everything returns to its place. A non-empty directory that is there
        now is a Conflict. If no data was condemned, passports made since stay, and the old ones are deleted. Done
        again: nothing more."""
        ...


class Storage(Copies, Purging, NewVolumes, Protocol):
    def directories(self) -> Sequence[DataDirectory]:
        """For reports: cheap, so the figures may be minutes old. Decisions use `directory`."""
        ...

    def directory(self, name: str) -> DataDirectory | None:
        """Measured now."""
        ...

    def create(self, name: str) -> DataDirectory: ...

    def volume(self, service: str, name: str, allowed: Allowed) -> str:
        """The path of a named volume; created if missing, owned by root and 0755 as container engines create a missing
        bind source; `fill` and `own` change that. An existing one is left as it is."""
        ...

    def host_path(self, service: str, path: str, allowed: Allowed) -> str:
        """The source of a volume written as HOST:CONTAINER. Created if missing inside the service's own directory;
        anywhere else it must exist, so that a typing error does not become an empty mount."""
        ...

    def content(self, place: str) -> DataDirectory | None:
        """What lies at a place below the data directory (`web/uploads`), measured now, with some names; a file counts
        as one entry."""
        ...

    def passport(self, place: str) -> bytes | None:
        """The signed copy beside the data; None if there is none, or it cannot be read."""
        ...

    def keep_passport(self, place: str, text: bytes) -> None:
        """Durable on return; no container reaches it."""
        ...

    def set_aside(self, name: str, allowed: Allowed) -> str:
        """Move the directory out of the way and return its new path; nothing is lost."""
        ...

    def remove_empty(self, name: str) -> None:
        """Only a directory without any entry; a non-empty one is a Conflict. Needs no order: nothing is lost."""
        ...
