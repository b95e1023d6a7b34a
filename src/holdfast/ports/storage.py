"""Data directories of services: looked at, made, copied, and destroyed only with a proof in hand (style §6)."""

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


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A whole copy of one service's data on this node: a way back, never a backup (V-30)."""

    service: str
    id: str
    path: str
    size_bytes: int
    made_s: float
    left_out: tuple[str, ...] = ()  # what no copy can hold: sockets, devices, other file systems mounted inside


class Discardable(Struct, frozen=True):
    """Proof that the gate found this checkpoint to be this agent's own scratch. Made by gate/copies.py alone."""

    checkpoint: Checkpoint


class Storage(Protocol):
    def directories(self) -> Sequence[DataDirectory]:
        """For reports: cheap, so the figures may be minutes old. Whoever decides something asks `directory`."""
        ...

    def directory(self, name: str) -> DataDirectory | None:
        """Counted now."""
        ...

    def create(self, name: str) -> DataDirectory: ...

    def volume(self, service: str, name: str) -> str:
        """Where a named volume lies; made if missing, root's and 0755 as container engines make a missing bind source
        (a program that runs as another user in its image needs one chown). One that is there is left as it is."""
        ...

    def host_path(self, service: str, path: str) -> str:
        """The source of a volume written as HOST:CONTAINER. Made if missing inside the service's own directory;
        anywhere else it must be there, for a typing error must not become an empty mount."""
        ...

    def set_aside(self, name: str) -> str:
        """Move the directory out of the way and answer where it went; nothing is lost."""
        ...

    def remove_empty(self, name: str) -> None:
        """Only a directory without any entry; a non-empty one is Failed. Needs no order: nothing is lost."""
        ...

    def checkpoint(self, service: str, id: str, at_s: float) -> Checkpoint:
        """Copy all data of a service. Complete and on the disk, or not there at all; that id again is that copy.
        Blocks as long as it takes; one at a time per service, and whoever writes there is stopped before."""
        ...

    def checkpoints(self) -> Sequence[Checkpoint]:
        """All complete ones: by service, oldest first."""
        ...

    def discard(self, proof: Discardable) -> None:
        """For good. Nothing if it is not there."""
        ...

    def condemn(self, name: str, proof: VerifiedOrder) -> None:
        """Move it where only this order finds it again, durably. Once moved, a new directory of that name is safe."""
        ...

    def condemned(self, name: str, proof: VerifiedOrder) -> bool:
        """Whether something this order condemned is still there."""
        ...

    def destroy(self, name: str, proof: VerifiedOrder) -> None:
        """For good, what this order condemned; condemns it first if that was not done. Names and node must match."""
        ...
