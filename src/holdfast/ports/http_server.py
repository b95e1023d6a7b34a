"""What an HTTP server gives its handler, and what the handler gives back: plain values. Knows no library."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

JSON = "application/json"


class Request(Struct, frozen=True):
    """A request as it was received. None of it is checked."""

    method: str
    target: str  # path and query exactly as sent; may be the absolute form
    headers: Mapping[str, str]
    source: str = ""  # network address of the peer
    path: str = ""  # without query, percent-encoded as sent
    query: tuple[tuple[str, str], ...] = ()  # percent-decoded
    fields: tuple[tuple[str, str], ...] = ()  # every header line, in the order in which it was sent
    length_bytes: int = 0  # Content-Length; 0 if there is none


class Response(Struct, frozen=True):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    content_type: str = JSON
    closes: bool = False  # the connection ends after this response


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How long a connection may wait in each of its states, and how long the head of a request may be."""

    handshake_s: float  # from the accepted connection until TLS is established
    head_s: float  # until the headers are complete
    idle_s: float  # between a response and the first byte of the next request
    idle_known_s: float  # the same for a connection with an identity
    linger_s: float  # reading on after a response that closes, so that the response arrives instead of a reset
    accept_pause_s: float  # after the system refused to accept
    line_bytes_max: int
    header_bytes_max: int
    headers_max: int
    piece_bytes: int  # a longer response is written in pieces of this size


class Slot(Protocol):
    """The place that one connection takes in the server."""

    address: str  # by which callers without an identity are counted
    identity: str  # "" until a request on the connection proved one
    waiting: bool  # the server waits for the peer, so the slot may be taken away
    leave_now: Callable[[], None]


class Slots(Protocol):
    """How many connections there may be, and which one must go for another."""

    def enter(self, host: str, leave_now: Callable[[], None]) -> Slot | None:
        """None: there is no slot for a caller from this host."""
        ...

    def identify(self, slot: Slot, identity: str) -> None: ...

    def leave(self, slot: Slot) -> None: ...


class Stream(Protocol):
    """Receives the bytes of a connection that no longer carries HTTP."""

    def feed(self, content: bytes) -> None: ...

    def over(self) -> None: ...


class Connection(Protocol):
    """The connection of a request."""

    @property
    def address(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def identify(self, identity: str) -> None: ...

    async def switch(self, stream: Stream, answer: bytes) -> None:
        """Send this answer; everything that is received afterwards goes to `stream`."""
        ...

    async def send(self, piece: bytes) -> None:
        """Returns when next to nothing of it is left here. Raises ConnectionError when the peer is gone."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def force_close(self) -> None:
        """Close after the present request."""
        ...

    def hang_up(self) -> None:
        """Close now, without waiting for bytes that the peer does not fetch."""
        ...


class Exchange(Protocol):
    """One request while it is served."""

    request: Request

    @property
    def connection(self) -> Connection: ...

    def is_gone(self) -> bool:
        """The peer closed the connection: a response would be lost."""
        ...

    async def proceed(self) -> None:
        """Tell the peer that the body may be sent (100 Continue)."""
        ...

    async def piece(self) -> bytes:
        """The next bytes of the body; b"" at its end. Raises Invalid if the body is malformed."""
        ...

    async def send(self, response: Response) -> None: ...


class Handler(Protocol):
    async def __call__(self, exchange: Exchange) -> None:
        """Sends exactly one response, or raises ConnectionError because no peer is left to receive one."""
        ...


class Server(Protocol):
    """A server that is bound to one address and belongs to one event loop."""

    @property
    def serving(self) -> int:
        """Requests under way."""
        ...

    def open(self) -> AbstractContextManager[int]:
        """Bind the address; gives the port. Leaving the block closes the address, not the connections."""
        ...

    async def listen(self) -> None:
        """Accept connections until cancelled."""
        ...

    def dismiss_idle(self) -> None:
        """Close connections on which no request is under way; the others close with their response."""
        ...

    async def close(self) -> None: ...
