"""One TCP connection and its patience: aiohttp's protocol, with a clock on every state in which a peer makes us wait.

aiohttp bounds sizes but has one timer only. Here a connection is always in one of three states: listening for a request
(HEAD_S or IDLE_S), being served (the body and the answer have their own clocks), or closed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from holdfast.errors import Invalid
from holdfast.hub import limits
from holdfast.hub.errors_http import refusal

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("holdfast.hub")

AIOHTTP_PATIENCE_S = 24 * 3600.0  # its own timer stays out of the way of ours


class Connection(web.RequestHandler):
    def __init__(self, manager: Listener, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._listener = manager
        self._clock: asyncio.TimerHandle | None = None
        self._heard = False  # a byte of the request that is being waited for
        self._resting = False  # an answer was given on this connection, and another request may follow
        self._request: web.BaseRequest | None = None  # being served
        self._ended = False  # the peer will send nothing more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._listener.admit(self):
            cast("asyncio.Transport", transport).abort()
            return
        super().connection_made(transport)
        # An answer is done when none of it is left here, so that the clock of the next state cuts nothing off.
        cast("asyncio.Transport", transport).set_write_buffer_limits(0)
        self._wait_at_most(limits.HEAD_S)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_clock()
        if self._listener.dismiss(self):
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if data and self._resting and not self._heard:
            self._wait_at_most(limits.HEAD_S)
        self._heard = self._heard or bool(data)
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio takes either, aiohttp says None
        """Whoever says goodbye after a whole request still gets his answer; true keeps the connection open for it."""
        self._ended = True
        if self._request is not None:
            return self._request.content.is_eof()
        if self._heard:
            self._wait_at_most(limits.EOF_S)  # a request may have come with the goodbye, not yet begun
        return self._heard

    def begin(self, request: web.BaseRequest) -> None:
        """The head of a request is complete."""
        self._request = request
        self._resting = False
        self._stop_clock()

    def rest(self) -> None:
        """The answer is written; another request may follow on this connection."""
        self._request = None
        self._heard, self._resting = False, True
        self._wait_at_most(limits.EOF_S if self._ended else limits.IDLE_S)

    def hang_up(self) -> None:
        """Close without waiting for bytes that the peer does not fetch."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

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
    """Makes a connection for everybody who calls, up to CONNECTIONS_MAX."""

    def __init__(self, handler: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(handler, loop=loop)
        self.loop = loop
        self._present: set[Connection] = set()

    def __call__(self) -> Connection:
        return Connection(
            self,
            loop=self.loop,
            access_log=None,
            keepalive_timeout=AIOHTTP_PATIENCE_S,
            lingering_time=limits.LINGER_S,
            max_line_size=limits.LINE_BYTES_MAX,
            max_field_size=limits.HEADER_BYTES_MAX,
            max_headers=limits.HEADERS_MAX,
            auto_decompress=False,  # nothing that grows while it is read
        )

    def admit(self, connection: Connection) -> bool:
        if len(self._present) >= limits.CONNECTIONS_MAX:
            return False
        self._present.add(connection)
        return True

    def dismiss(self, connection: Connection) -> bool:
        known = connection in self._present
        self._present.discard(connection)
        return known
