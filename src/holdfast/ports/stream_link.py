"""The two ends of a stream that a hub relays without being able to read it. Every wait is bounded.

The order's id is the name of the meeting. The node proves itself by a certificate of its pinned issuer, the caller by
the one key that the signed order names: whoever else is connected to either end hears nothing.
"""

from typing import Protocol

from msgspec import Struct

from holdfast.errors import Corrupt, Unreachable
from holdfast.model.certificate import Issued


class StreamCut(Unreachable):
    """It ended and nobody said that it would: the hub, the other end or the line between them is gone."""

    code = "stream_cut"


class StreamForged(Corrupt):
    """Somebody between the two ends changed what was sent, or put himself or another one in its place."""

    code = "stream_forged"


class Channel(Protocol):
    """The node's end. `write` waits for whoever reads slowly, so that nothing grows here."""

    async def read(self) -> bytes:
        """b"" once the other end has left. Raises StreamForged."""
        ...

    async def write(self, content: bytes) -> None:
        """Raises StreamCut when nobody is there any more."""
        ...

    async def close(self) -> None: ...


class NodeStreams(Protocol):
    async def answer(self, order: str, shown: Issued, caller: bytes) -> Channel:
        """Meet whoever holds the key of the certificate `caller` (DER), and nobody else.

        Raises StreamForged for anybody else, Unreachable when nobody comes, and what the hub refuses with.
        """
        ...


class CallerKey(Struct, frozen=True):
    """A key for one stream, kept nowhere. `certificate` is DER, `chain` and `private` PEM."""

    certificate: bytes
    chain: bytes
    private: bytes

    def __repr__(self) -> str:  # never the key
        return "CallerKey()"


class Pinned(Struct, frozen=True):
    """A node as the applied revision pins it."""

    node: str
    issuer: bytes  # DER, whose digest is in the revision
    name: str  # that its certificate is made for


class Talk(Protocol):
    """The caller's end; blocks, and belongs to one thread but for `close`."""

    def read(self, at_most_s: float) -> bytes | None:
        """b"" once the other end has left, None if nothing came in time. Raises StreamForged."""
        ...

    def write(self, content: bytes) -> None: ...

    def close(self) -> None:
        """From any thread; whoever is reading stops."""
        ...


class CallerStreams(Protocol):
    def key(self) -> CallerKey: ...

    def call(self, order: str, key: CallerKey, node: Pinned) -> Talk:
        """Meet that node, and nobody else; from any thread.

        Raises StreamForged for anybody else, Unreachable when nobody comes, and what the hub refuses with.
        """
        ...
