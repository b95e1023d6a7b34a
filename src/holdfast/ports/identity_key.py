"""An Ed25519 key of a node, a hub or a session: its public line and a raw signature."""

from typing import Protocol


class IdentityKey(Protocol):
    @property
    def line(self) -> str:
        """The public half as one SSH line without comment."""
        ...

    def sign(self, message: bytes) -> bytes:
        """64 raw bytes. The caller adds the framing (SSHSIG, RFC 9421). Never prompts."""
        ...
