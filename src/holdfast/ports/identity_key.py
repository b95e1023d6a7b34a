"""A key of our own, of a node, a hub or a session: its public line and a raw signature. Ed25519."""

from typing import Protocol


class IdentityKey(Protocol):
    @property
    def line(self) -> str:
        """The public half as one SSH line without comment."""
        ...

    def sign(self, message: bytes) -> bytes:
        """64 raw bytes. Framing (SSHSIG, RFC 9421) is the caller's; never asks anybody."""
        ...
