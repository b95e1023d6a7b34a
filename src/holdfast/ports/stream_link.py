"""The two ends of a stream that a hub relays without being able to read it. Every wait is bounded.

The order's id names the stream. The node proves itself by a certificate of its pinned issuer, the caller by the one
key that the signed order names: any other peer connected to either end receives nothing.
"""

from typing import Protocol

from msgspec import Struct

from holdfast.errors import Corrupt, Unreachable
from holdfast.model.certificate import Issued


class StreamCut(Unreachable):
    """The stream ended without an end frame: the hub, the other end or the connection between them is gone."""

    code = "stream_cut"


class StreamForged(Corrupt):
    """What was sent was changed on the way, or the other end is not the expected peer."""

    code = "stream_forged"


class Channel(Protocol):
    """The node's end. `write` waits for a slow reader, so that no buffer grows here."""

    async def read(self) -> bytes:
        """b"" once the other end has left. Raises StreamForged."""
        ...

    async def write(self, content: bytes) -> None:
        """Raises StreamCut when the other end is gone."""
        ...

    async def close(self) -> None: ...


class NodeStreams(Protocol):
    async def answer(self, order: str, shown: Issued, caller: bytes) -> Channel:
        """Connect to the holder of the key of the certificate `caller` (DER) only.

        Raises StreamForged for any other peer, Unreachable when no peer comes, and the hub's own refusals.
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
    """The caller's end. Blocks; only `close` may be called from another thread."""

    def read(self, at_most_s: float) -> bytes | None:
        """b"" once the other end has left, None if nothing came in time. Raises StreamForged."""
        ...

    def write(self, content: bytes) -> None: ...

    def close(self) -> None:
        """From any thread; a blocked read returns."""
        ...


class CallerStreams(Protocol):
    def key(self) -> CallerKey: ...

    def call(self, order: str, key: CallerKey, node: Pinned) -> Talk:
        """Connect to that node only; from any thread.

        Raises StreamForged for any other peer, Unreachable when no peer comes, and the hub's own refusals.
        """
        ...
