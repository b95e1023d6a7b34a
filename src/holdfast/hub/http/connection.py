"""One TLS connection: aiohttp's protocol with a time limit on every state in which a peer makes us wait.

aiohttp bounds sizes but has one timer only. Here a connection is always in one of five states: shaking hands
(HANDSHAKE_S), listening for a request (HEAD_S, IDLE_S or IDLE_KNOWN_S), being served (the body and the answer have
their own limits, and a held check-in ends in time), carrying a stream (hub/orders/relay.py has the limits), or closed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from holdfast.errors import Invalid
from holdfast.hub.http import limits
from holdfast.hub.http.errors_http import refusal
from holdfast.hub.http.slots import ConnectionSlots, Place, neighbourhood

if TYPE_CHECKING:
    import ssl

    from holdfast.hub.orders.relay import Half

log = logging.getLogger("holdfast.hub")

AIOHTTP_PATIENCE_S = 24 * 3600.0  # its own timer stays out of the way of ours


class Connection(web.RequestHandler):
    def __init__(self, manager: Listener, place: Place, source: str, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._listener = manager
        self.place = place
        self.source = source  # network address of the peer
        self._clock: asyncio.TimerHandle | None = None
        self._heard = False  # a byte of the request that is being waited for
        self._resting = False  # an answer was given on this connection, and another request may follow
        self._stream: Half | None = None  # what comes is no HTTP any more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.place.leave_now = self.hang_up
        # An answer is done when next to none of it is left here, so that the clock of the next state cuts nothing off.
        # Not zero: uvloop's TLS would call an empty buffer full.
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=1, low=0)
        self._wait_at_most(limits.HEAD_S)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_clock()
        self._listener.places.leave(self.place)
        if self._stream is not None:
            self._stream.over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
            return
        if data and self._resting and not self._heard:
            self._wait_at_most(limits.HEAD_S)
        self._heard = self._heard or bool(data)
        super().data_received(data)

    def identify(self, identity: str) -> None:
        """A request on this connection proved who sends it."""
        self._listener.places.identify(self.place, identity)

    def begin(self) -> None:
        """The head of a request is complete."""
        self.place.waiting = False
        self._resting = False
        self._stop_clock()

    def rest(self) -> None:
        """The answer is written; another request may follow on this connection."""
        self.place.waiting = True
        self._heard, self._resting = False, True
        self._wait_at_most(limits.IDLE_KNOWN_S if self.place.identity else limits.IDLE_S)

    def hang_up(self) -> None:
        """Close without waiting for bytes that the peer does not fetch."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    # ---- carrying a stream

    async def switch(self, stream: Half, answer: bytes) -> None:
        """No HTTP from here on: the answer that says so, and then what the stream brings."""
        self._stream = stream
        await self.send(answer)

    async def send(self, piece: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionError("the peer is gone")
        self.transport.write(piece)
        await self._drain_helper()

    def pause(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    # ---- what is no HTTP

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp cannot parse, answered in our words and without a traceback in the log."""
        if status < 500:
            bad = Invalid("this is not an HTTP request the hub accepts", remedy="send HTTP/1.1 within the limits")
            answer = refusal(bad, writing=False)
            answer.force_close()
            return answer
        if not isinstance(exc, ConnectionError):
            log.error("an answer failed on its way out", exc_info=exc)
        raise ConnectionError("no second answer") from exc

    def _wait_at_most(self, seconds: float) -> None:
        self._stop_clock()
        if self.transport is not None:
            self._clock = self._listener.loop.call_later(seconds, self.hang_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


class Listener(web.Server):
    """Opens the door to everybody who calls, as long as there are places."""

    def __init__(self, handler: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(handler, loop=loop)
        self.loop = loop
        self.places = ConnectionSlots()
        self._greetings: set[asyncio.Task[None]] = set()

    async def listen(self, door: socket.socket, context: ssl.SSLContext) -> None:
        """Until cancelled. Accepts by hand, because a handshake that does not end takes a place too."""
        try:
            while True:
                try:
                    line, peer = await self.loop.sock_accept(door)
                except OSError as trouble:  # out of handles, or he was gone again before we said hello
                    log.warning("a caller could not be let in: %s", trouble)
                    await asyncio.sleep(limits.ACCEPT_PAUSE_S)
                    continue
                place = Place(neighbourhood(peer[0]), lambda line=line: _cut(line))  # type: ignore[misc]
                if not self.places.admit(place):
                    line.close()
                    continue
                greeting = self.loop.create_task(self._greet(line, place, peer[0], context))
                self._greetings.add(greeting)
                greeting.add_done_callback(self._greetings.discard)
        finally:
            for greeting in self._greetings:
                greeting.cancel()

    async def _greet(self, line: socket.socket, place: Place, source: str, context: ssl.SSLContext) -> None:
        try:
            line.setblocking(False)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self.loop.connect_accepted_socket(
                lambda: self._connection(place, source),
                line,
                ssl=context,
                ssl_handshake_timeout=limits.HANDSHAKE_S,
                ssl_shutdown_timeout=limits.LINGER_S,
            )
        except OSError as trouble:  # also what ssl and asyncio raise
            log.debug("no handshake with %s: %s", source, trouble)
            self._forget(line, place)
        except BaseException:
            self._forget(line, place)
            raise

    def _forget(self, line: socket.socket, place: Place) -> None:
        self.places.leave(place)
        line.close()

    def _connection(self, place: Place, source: str) -> Connection:
        return Connection(
            self,
            place,
            source,
            loop=self.loop,
            access_log=None,
            keepalive_timeout=AIOHTTP_PATIENCE_S,
            lingering_time=limits.LINGER_S,
            max_line_size=limits.LINE_BYTES_MAX,
            max_field_size=limits.HEADER_BYTES_MAX,
            max_headers=limits.HEADERS_MAX,
            auto_decompress=False,  # nothing that grows while it is read
        )


def _cut(line: socket.socket) -> None:
    """While hands are being shaken the loop owns the socket; this makes its reading end."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
