"""One connection to the hub: aiohttp speaks HTTP on it, the time limits are ours.

A connection is always in one of these states: waiting for a request (with a time limit), being served (the handler has
the time limits), carrying a stream (hub/orders/relay.py has the limits), or closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from holdfast.adapters.http_server.translation import response_of

if TYPE_CHECKING:
    from holdfast.ports.http_server import ConnectionLimits, Response, Slot, Slots, Stream

log = logging.getLogger("holdfast.hub")

AIOHTTP_PATIENCE_S = 24 * 3600.0  # aiohttp's own timer must not run out before ours


class Connection(web.RequestHandler):
    """`malformed` is the response to bytes that are not HTTP."""

    def __init__(
        self,
        manager: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        slots: Slots,
        slot: Slot,
        source: str,
        limits: ConnectionLimits,
        malformed: Response,
    ) -> None:
        settings: dict[str, Any] = {
            "loop": loop,
            "access_log": None,
            "keepalive_timeout": AIOHTTP_PATIENCE_S,
            "lingering_time": limits.linger_s,
            "max_line_size": limits.line_bytes_max,
            "max_field_size": limits.header_bytes_max,
            "max_headers": limits.headers_max,
            "auto_decompress": False,  # a body must not grow while it is read
        }
        super().__init__(manager, **settings)
        self.source = source  # network address of the peer
        self._timers = loop
        self._slots = slots
        self._slot = slot
        self._limits = limits
        self._malformed = malformed
        self._timer: asyncio.TimerHandle | None = None
        self._heard = False  # a byte of the awaited request was received
        self._resting = False  # a response was sent on this connection, and another request may follow
        self._stream: Stream | None = None  # set once the connection carries no HTTP any more

    @property
    def address(self) -> str:
        return self._slot.address

    @property
    def identity(self) -> str:
        return self._slot.identity

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._slot.leave_now = self.hang_up
        # A response counts as sent when next to none of it is buffered here, so that the time limit of the next state
        # cuts nothing off. Not zero: uvloop's TLS treats an empty buffer as full.
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=1, low=0)
        self._wait_at_most(self._limits.head_s)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._slots.leave(self._slot)
        if self._stream is not None:
            self._stream.over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
            return
        if data and self._resting and not self._heard:
            self._wait_at_most(self._limits.head_s)
        self._heard = self._heard or bool(data)
        super().data_received(data)

    def identify(self, identity: str) -> None:
        """A request on this connection proved who sends it."""
        self._slots.identify(self._slot, identity)

    def begin(self) -> None:
        """The head of a request is complete."""
        self._slot.waiting = False
        self._resting = False
        self._stop_timer()

    def rest(self) -> None:
        """The response is written; another request may follow on this connection."""
        self._slot.waiting = True
        self._heard, self._resting = False, True
        self._wait_at_most(self._limits.idle_known_s if self._slot.identity else self._limits.idle_s)

    def hang_up(self) -> None:
        """Close without waiting for bytes that the peer does not fetch."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    # ---- carrying a stream

    async def switch(self, stream: Stream, answer: bytes) -> None:
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

    # ---- bytes that are not HTTP

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to what aiohttp cannot parse; without a traceback in the log."""
        if status < 500:
            return response_of(self._malformed)
        if not isinstance(exc, ConnectionError):
            log.error("an answer failed on its way out", exc_info=exc)
        raise ConnectionError("no second answer") from exc

    def _wait_at_most(self, seconds: float) -> None:
        self._stop_timer()
        if self.transport is not None:
            self._timer = self._timers.call_later(seconds, self.hang_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
