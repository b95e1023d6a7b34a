"""Data directories of services: looked at, made, and destroyed only with an operator's order in hand (style §6)."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.order import VerifiedOrder


class DataDirectory(Struct, frozen=True):
    name: str  # of the service
    path: str
    files: int  # entries of any kind, counted up to a bound; 0 means truly empty
    size_bytes: int


class Storage(Protocol):
    def directories(self) -> Sequence[DataDirectory]: ...

    def directory(self, name: str) -> DataDirectory | None: ...

    def create(self, name: str) -> DataDirectory: ...

    def set_aside(self, name: str) -> str:
        """Move the directory out of the way and answer where it went; nothing is lost."""
        ...

    def remove_empty(self, name: str) -> None:
        """Only a directory without any entry; a non-empty one is Failed. Needs no order: nothing is lost."""
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
