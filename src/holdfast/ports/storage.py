"""Data directories of services: measured, created, copied, and destroyed only with a proof (style §6)."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.order import VerifiedOrder


class DataDirectory(Struct, frozen=True):
    name: str  # of the service
    path: str
    files: int  # everything but directories, counted up to a bound
    size_bytes: int
    entries: int  # of any kind, counted up to a bound; 0 means truly empty
    names: tuple[str, ...] = ()  # the first ones directly inside, where it was asked for


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A whole copy of one service's data on this node: it allows a way back, but is not a backup (V-30)."""

    service: str
    id: str
    path: str
    size_bytes: int
    made_s: float
    left_out: tuple[str, ...] = ()  # what no copy can hold: sockets, devices, other file systems mounted inside


class Discardable(Struct, frozen=True):
    """Proof that the gate found this checkpoint to be this agent's own scratch. Only gate/copies.py makes it."""

    checkpoint: Checkpoint


class Storage(Protocol):
    def directories(self) -> Sequence[DataDirectory]:
        """For reports: cheap, so the figures may be minutes old. Decisions use `directory`."""
        ...

    def directory(self, name: str) -> DataDirectory | None:
        """Measured now."""
        ...

    def create(self, name: str) -> DataDirectory: ...

    def volume(self, service: str, name: str) -> str:
        """The path of a named volume; created if missing, owned by root and 0755 as container engines create a missing
        bind source (a program that runs as another user needs one chown). An existing one is left as it is."""
        ...

    def host_path(self, service: str, path: str) -> str:
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

    def drop_passports(self, service: str, proof: VerifiedOrder) -> None:
        """All signed copies of one service, whose data this order purges."""
        ...

    def set_aside(self, name: str) -> str:
        """Move the directory out of the way and return its new path; nothing is lost."""
        ...

    def remove_empty(self, name: str) -> None:
        """Only a directory without any entry; a non-empty one is a Conflict. Needs no order: nothing is lost."""
        ...

    def checkpoint(self, service: str, id: str, at_s: float) -> Checkpoint:
        """Copy all data of a service. Complete and durable, or absent; the same id again returns the same copy.
        Blocks as long as it takes; one at a time per service, and the caller stops all writers first."""
        ...

    def checkpoints(self) -> Sequence[Checkpoint]:
        """All complete ones: by service, oldest first."""
        ...

    def discard(self, proof: Discardable) -> None:
        """Permanently. Does nothing if it does not exist."""
        ...

    def condemn(self, name: str, proof: VerifiedOrder) -> None:
        """Move it durably to where only this order finds it. After that, a new directory of that name is safe."""
        ...

    def condemned(self, name: str, proof: VerifiedOrder) -> bool:
        """Whether something this order condemned is still there."""
        ...

    def destroy(self, name: str, proof: VerifiedOrder) -> None:
        """Delete permanently what this order condemned; condemns it first if needed. Name and node must match."""
        ...
