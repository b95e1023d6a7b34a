"""Values sealed to keys: whoever has one of the keys opens them, nobody else does."""

from collections.abc import Sequence
from typing import Protocol


class CannotOpen(Exception):
    """Not sealed to this key, or not what was sealed. Says nothing about the value, which nobody saw."""


class Sealer(Protocol):
    def seal(self, value: bytes, recipients: Sequence[str]) -> bytes:
        """`recipients` are SSH public lines (ssh-ed25519) and age recipients (age1…), at least one. Answers the binary
        form. Two calls never answer the same. Invalid for a recipient that is none."""
        ...


class Opener(Protocol):
    def open(self, sealed: bytes) -> bytes:
        """The value; CannotOpen for whatever is not sealed to us, cut short or changed."""
        ...
