"""Directories for drills, apart from all data of services. Only root can enter them."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


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

    def volume(self, proof: Drillable, place: str) -> str:
        """The path of a place in it (`uploads`; "" is all of it). What the backup did not bring is made as an empty
        directory, with owner and mode of the same place of the service."""
        ...

    def found(self) -> Sequence[str]:
        """The ids of all that are there."""
        ...

    def clear(self, proof: Clearable) -> None:
        """Delete it. Does nothing if it is not there."""
        ...
