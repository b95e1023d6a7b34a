"""The hub's HTTPS server: binds, accepts, does the TLS handshake, and serves each request through the handler."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from holdfast.adapters.http_server.connection import Connection
from holdfast.adapters.http_server.translation import piece_of, request_of, response_of
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from aiohttp.abc import AbstractStreamWriter

    from holdfast.ports.http_server import ConnectionLimits, Handler, Response, Slot, Slots

log = logging.getLogger("holdfast.hub")

BACKLOG = 1_024
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE_S = 0.1  # for connections that are still open at the end


class HubExchange:
    """One request while it is served. `sent` is the response as aiohttp knows it."""

    def __init__(self, received: web.BaseRequest, connection: Connection, piece_bytes: int) -> None:
        self.request = request_of(received, connection.source)
        self.connection = connection
        self.sent: web.Response | None = None
        self._received = received
        self._piece_bytes = piece_bytes

    def is_gone(self) -> bool:
        return self._received.transport is None

    async def proceed(self) -> None:
        await self._received.writer.write(CONTINUE)

    async def piece(self) -> bytes:
        return await piece_of(self._received)

    async def send(self, response: Response) -> None:
        """Written here and not by aiohttp, so that the handler can limit the time it takes."""
        made = response_of(response)
        writer = await made.prepare(self._received)
        if len(response.body) > self._piece_bytes and writer is not None and self._received.method != "HEAD":
            await _write_pieces(response.body, self._piece_bytes, writer)
            made.body = None
        await made.write_eof()
        await self._received.writer.drain()
        self.sent = made


async def _write_pieces(body: bytes, piece_bytes: int, writer: AbstractStreamWriter) -> None:
    """What a slow reader has not fetched stays in `body`, which is counted, and not in a buffer below TLS."""
    view = memoryview(body)
    for at in range(0, len(view), piece_bytes):
        await writer.write(view[at : at + piece_bytes])
        await writer.drain()


class HubServer:
    """Accepts as long as there are slots; the slots say who has to go for another caller."""

    def __init__(
        self,
        handler: Handler,
        *,
        context: ssl.SSLContext,
        slots: Slots,
        limits: ConnectionLimits,
        malformed: Response,
        host: str,
        port: int,
    ) -> None:
        self._handler = handler
        self._context = context
        self._slots = slots
        self._limits = limits
        self._malformed = malformed
        self._host = host
        self._port = port
        self._door: socket.socket | None = None
        self._connections: web.Server | None = None  # aiohttp's book of connections
        self._handshakes: set[asyncio.Task[None]] = set()
        self.serving = 0  # requests under way

    @contextmanager
    def open(self) -> Iterator[int]:
        self._connections = web.Server(cast("Any", self._serve), loop=asyncio.get_running_loop())
        with _bound(self._host, self._port) as door:
            self._door = door
            yield door.getsockname()[1]

    async def listen(self) -> None:
        """Accepts by hand, because a handshake that does not end takes a slot, too."""
        assert self._door is not None and self._connections is not None, "open comes first"
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    line, peer = await loop.sock_accept(self._door)
                except OSError as trouble:  # out of handles, or the peer closed the connection already
                    log.warning("a caller could not be let in: %s", trouble)
                    await asyncio.sleep(self._limits.accept_pause_s)
                    continue
                slot = self._slots.enter(peer[0], lambda line=line: _cut(line))  # type: ignore[misc]
                if slot is None:
                    line.close()
                    continue
                handshake = loop.create_task(self._shake_hands(line, slot, peer[0], self._connections))
                self._handshakes.add(handshake)
                handshake.add_done_callback(self._handshakes.discard)
        finally:
            for handshake in self._handshakes:
                handshake.cancel()

    def dismiss_idle(self) -> None:
        if self._connections is not None:
            self._connections.pre_shutdown()

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.shutdown(CLOSE_S)

    async def _serve(self, received: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", received.protocol)
        connection.begin()
        self.serving += 1
        try:
            exchange = HubExchange(received, connection, self._limits.piece_bytes)
            await self._handler(exchange)
            assert exchange.sent is not None, "a handler sends a response, or raises"
            return exchange.sent
        finally:
            self.serving -= 1
            connection.rest()

    async def _shake_hands(self, line: socket.socket, slot: Slot, source: str, connections: web.Server) -> None:
        loop = asyncio.get_running_loop()
        try:
            line.setblocking(False)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: Connection(
                    connections,
                    loop=loop,
                    slots=self._slots,
                    slot=slot,
                    source=source,
                    limits=self._limits,
                    malformed=self._malformed,
                ),
                line,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=self._limits.linger_s,
            )
        except OSError as trouble:  # also what ssl and asyncio raise
            log.debug("no handshake with %s: %s", source, trouble)
            self._forget(line, slot)
        except BaseException:
            self._forget(line, slot)
            raise

    def _forget(self, line: socket.socket, slot: Slot) -> None:
        self._slots.leave(slot)
        line.close()


def _cut(line: socket.socket) -> None:
    """During the handshake the event loop owns the socket; this makes its reading end."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen(BACKLOG)
        door.setblocking(False)
    except OSError as trouble:
        door.close()
        raise _cannot_listen(host, port, trouble) from trouble
    except OverflowError:
        door.close()
        raise Invalid(f"{port} is no port", remedy="give a port from 0 to 65535") from None
    return door


def _cannot_listen(host: str, port: int, trouble: OSError) -> HoldfastError:
    what = f"cannot listen on {host} port {port}: {trouble.strerror}"
    if trouble.errno == errno.EADDRINUSE:
        remedy = "stop the program that listens there, or choose another --listen"
        return Conflict(what, remedy=remedy, code="address_in_use")
    return Failed(what, remedy="choose another --listen address", code="listen_failed")
