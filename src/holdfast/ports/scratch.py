"""Directories for drills, apart from all data of services. Only root can enter them."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.ports.runtime import ImageDirectory


class Drillable(Struct, frozen=True):
    """Proof that a backup of this service may be unpacked into scratch. Only gate/copies.py makes it."""

    service: str
    id: str


class Clearable(Struct, frozen=True):
    """Proof that the gate found this directory to be this agent's own scratch. Only gate/copies.py makes it."""

    id: str


class Scratch(Protocol):
    """Every verb may block for as long as it takes."""

    def path(self, id: str) -> str:
        """Where `make` makes it."""
        ...

    def room_bytes(self) -> int:
        """What a drill may take: some space of the disk always stays free."""
        ...

    def make(self, proof: Drillable) -> str:
        """The path of a new, empty directory. One that is there already is a Conflict."""
        ...

    def lacks(self, proof: Drillable, place: str) -> bool:
        """Whether it is a volume (`uploads`; a path inside one is none) that the backup did not bring."""
        ...

    def volume(self, proof: Drillable, place: str, image: ImageDirectory | None = None, owner: str = "") -> str:
        """The path of a place in it (`uploads`; "" is all of it). What the backup did not bring is made: a volume with
        what the image has, as a new one of a service begins; else an empty directory, with owner and mode of the same
        place of the service. `owner` (`UID:GID`) is declared for it."""
        ...

    def found(self) -> Sequence[str]:
        """The ids of all that are there."""
        ...

    def clear(self, proof: Clearable) -> None:
        """Delete it. Does nothing if it is not there."""
        ...
