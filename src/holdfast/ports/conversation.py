"""Bytes to and from a program, over a connection that is made already or cannot be made."""

from typing import Protocol


class Conversation(Protocol):
    """Raises OSError if there is no connection."""

    async def send(self, content: bytes) -> None: ...

    async def receive(self) -> bytes:
        """Some bytes; none after the other side has closed."""
        ...
