"""Sealed values: only a holder of one of the keys can open them."""

from collections.abc import Sequence
from typing import IO, Protocol


class CannotOpen(Exception):
    """Not sealed to this key, or changed after sealing. The value stays unknown."""


class Sealer(Protocol):
    def seal(self, value: bytes, recipients: Sequence[str]) -> bytes:
        """`recipients` are SSH public lines (ssh-ed25519) and age recipients (age1…), at least one. Returns the binary
        form. Two calls never return the same bytes. Raises Invalid for a recipient of any other form."""
        ...

    def seal_stream(self, source: IO[bytes], into: IO[bytes], recipients: Sequence[str]) -> None:
        """The same for a file of any length, piece by piece."""
        ...


class Opener(Protocol):
    def open(self, sealed: bytes) -> bytes:
        """The value; raises CannotOpen if it is not sealed to this key, truncated or changed."""
        ...

    def open_stream(self, sealed: IO[bytes], into: IO[bytes]) -> None:
        """The same for a file of any length: `into` is worth nothing unless this returns."""
        ...
