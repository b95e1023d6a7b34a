"""A node's HTTPS server: one request per connection, one time limit over it, a certificate renewed while it runs."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiohttp import web

from holdfast.adapters.http_server.translation import piece_of, request_of, response_of
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from holdfast.model.certificate import Issued
    from holdfast.ports.http_server import Request, Response

log = logging.getLogger("holdfast.agent")

CONNECTIONS_MAX = 32  # one more is closed at once
HANDSHAKE_S = 5.0
VISIT_S = 15.0  # from the end of the handshake to the last byte of the answer
LINE_BYTES_MAX = 4096
HEADER_BYTES_MAX = 8190
HEADERS_MAX = 40
ACCEPT_PAUSE_S = 0.2
RENEWAL_CHECK_S = 600.0

_Address = tuple[int, tuple[Any, ...]]  # family, and what `bind` takes


class NodeApi(Protocol):
    """What the node answers (agent/local_api/api.py)."""

    body_bytes_max: int
    malformed: Response  # to bytes that are not HTTP

    async def answer(self, request: Request, body: Callable[[], Awaitable[bytes]]) -> Response: ...

    def close(self) -> None: ...


class Tls(Protocol):
    """How certificates become a listening context; wiring brings the product."""

    def context(self, issued: Issued) -> ssl.SSLContext: ...

    def reload(self, context: ssl.SSLContext, issued: Issued) -> None: ...


class NodeServer:
    """`serving` gives the certificate to show now, renewed when due; it is called repeatedly."""

    def __init__(self, api: NodeApi, serving: Callable[[], Issued], tls: Tls, host: str, port: int) -> None:
        self._api = api
        self._serving = serving
        self._tls = tls
        self._host = host
        self._port = port
        self._context: ssl.SSLContext | None = None
        self._present = 0  # connections, handshakes included
        self._handshakes: set[asyncio.Task[None]] = set()
        self.shown = ""  # digest of the certificate that callers see

    async def run(self, ready: Callable[[int], None] | None = None) -> None:
        """Until cancelled. `ready` is called with the port, which the system chooses if 0 was asked for."""
        context = self.refresh()
        connections = web.Server(cast("Any", self._answer), loop=asyncio.get_running_loop())
        with _listen(await _resolved(self._host, self._port)) as door:
            if ready is not None:
                ready(door.getsockname()[1])
            renewal = asyncio.create_task(self._renew())
            try:
                await self._accept(door, context, connections)
            finally:
                renewal.cancel()
                for handshake in self._handshakes:
                    handshake.cancel()
                await connections.shutdown(0.1)
                self._api.close()

    def refresh(self) -> ssl.SSLContext:
        """Show what should be shown now; also called when a revision changed the node's name or zone."""
        issued = self._serving()
        if self._context is None:
            self._context = self._tls.context(issued)
        elif issued.facts.digest != self.shown:
            self._tls.reload(self._context, issued)
        self.shown = issued.facts.digest
        return self._context

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL_CHECK_S)
            try:
                self.refresh()
            except HoldfastError as trouble:  # a third of its life is left, so there is time to act on the warning
                log.warning("the listener's certificate was not renewed: %s", trouble.message)

    async def _accept(self, door: socket.socket, context: ssl.SSLContext, connections: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, peer = await loop.sock_accept(door)
            except OSError as trouble:
                log.warning("a caller could not be let in: %s", trouble)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if self._present >= CONNECTIONS_MAX:
                line.close()
                continue
            self._present += 1
            handshake = loop.create_task(self._shake_hands(line, str(peer[0]), context, connections))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _shake_hands(
        self, line: socket.socket, source: str, context: ssl.SSLContext, connections: web.Server
    ) -> None:
        """A handshake that does not end takes a place as well, so it is counted from here on."""
        loop = asyncio.get_running_loop()
        connection = _Connection(connections, source, self._left, self._api.malformed)
        try:
            await loop.connect_accepted_socket(
                lambda: connection, line, ssl=context, ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=1.0
            )
        except (OSError, asyncio.CancelledError) as trouble:
            line.close()
            connection.leave()
            if isinstance(trouble, asyncio.CancelledError):
                raise

    def _left(self) -> None:
        self._present -= 1

    async def _answer(self, received: web.BaseRequest) -> web.StreamResponse:
        source = cast("_Connection", received.protocol).source
        bytes_max = self._api.body_bytes_max
        return _sent(await self._api.answer(request_of(received, source), lambda: _body(received, bytes_max)))


class _Connection(web.RequestHandler):
    def __init__(self, connections: web.Server, source: str, left: Callable[[], None], malformed: Response) -> None:
        super().__init__(
            connections,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None is how it is switched off
            keepalive_timeout=VISIT_S,
            lingering_time=0.0,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            auto_decompress=False,
        )
        self.source = source
        self._malformed = malformed
        self._left: Callable[[], None] | None = left
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        abort = cast("asyncio.Transport", transport).abort
        self._timer = asyncio.get_running_loop().call_later(VISIT_S, abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.leave()
        super().connection_lost(exc)

    def leave(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            left()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to what aiohttp cannot parse; without a traceback in the log."""
        if status >= 500:
            raise ConnectionError("no second answer") from exc
        return _sent(self._malformed)


async def _body(received: web.BaseRequest, bytes_max: int) -> bytes:
    if (received.content_length or 0) > bytes_max or received.headers.get("Content-Encoding"):
        raise _too_long(bytes_max)
    content = bytearray()
    while piece := await piece_of(received):
        content += piece
        if len(content) > bytes_max:
            raise _too_long(bytes_max)
    return bytes(content)


def _too_long(bytes_max: int) -> Invalid:
    return Invalid(f"a body has at most {bytes_max:,} plain bytes", remedy="send less", code="body_too_large")


def _sent(response: Response) -> web.Response:
    """One request per connection, and no cache keeps the answer."""
    made = response_of(response)
    made.headers["Cache-Control"] = "no-store"
    made.force_close()
    return made


async def _resolved(host: str, port: int) -> _Address:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as trouble:
        raise _cannot(host, port, trouble) from trouble
    family, _, _, _, address = found[0]
    return family, address


def _listen(where: _Address) -> socket.socket:
    family, address = where
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(CONNECTIONS_MAX)
        door.setblocking(False)
    except (OSError, OverflowError) as trouble:
        door.close()
        raise _cannot(str(address[0]), int(address[1]), trouble) from trouble
    return door


def _cannot(host: str, port: int, trouble: Exception) -> HoldfastError:
    taken = isinstance(trouble, OSError) and trouble.errno == errno.EADDRINUSE
    return (Conflict if taken else Failed)(
        f"cannot listen on {host} port {port}: {getattr(trouble, 'strerror', None) or trouble}",
        remedy=f"see who has it: ss -ltnp 'sport = :{port}'"
        if taken
        else "give the node an address of this machine in [[nodes]] of fleet.toml and apply, or choose another: "
        "holdfast agent run --listen ADDRESS:PORT",
        code="listen_failed",
    )
