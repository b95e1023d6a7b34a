"""The agent's HTTPS listener: one request per connection, a clock over all of it, a certificate renewed in flight."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from holdfast.agent.local_api.api import BODY_BYTES_MAX, Answer, Asked, LocalApi, refusal
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from holdfast.model.certificate import Issued

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


class Tls(Protocol):
    """How certificates become a listening context; wiring brings the product."""

    def context(self, issued: Issued) -> ssl.SSLContext: ...

    def reload(self, context: ssl.SSLContext, issued: Issued) -> None: ...


class Listener:
    """`serving` answers the certificate to show at this moment, renewed when due; it is asked again and again."""

    def __init__(self, api: LocalApi, serving: Callable[[], Issued], tls: Tls, host: str, port: int) -> None:
        self._api = api
        self._serving = serving
        self._tls = tls
        self._host = host
        self._port = port
        self._context: ssl.SSLContext | None = None
        self._present = 0
        self._greetings: set[asyncio.Task[None]] = set()
        self.shown = ""  # digest of the certificate that callers see

    async def run(self, ready: Callable[[int], None] | None = None) -> None:
        """Until cancelled. `ready` hears the port, which the system chooses if 0 was asked for."""
        context = self.refresh()
        visits = _Visits(self._answer)
        with _listen(await _resolved(self._host, self._port)) as door:
            if ready is not None:
                ready(door.getsockname()[1])
            renewal = asyncio.create_task(self._renew())
            try:
                await self._accept(door, context, visits)
            finally:
                renewal.cancel()
                for greeting in self._greetings:
                    greeting.cancel()
                await visits.shutdown(0.1)
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
            except HoldfastError as trouble:  # a third of its life is left, so there is time to tell somebody
                log.warning("the listener's certificate was not renewed: %s", trouble.message)

    async def _accept(self, door: socket.socket, context: ssl.SSLContext, visits: _Visits) -> None:
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
            greeting = loop.create_task(self._greet(line, str(peer[0]), context, visits))
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def _greet(self, line: socket.socket, source: str, context: ssl.SSLContext, visits: _Visits) -> None:
        """A handshake that does not end takes a place as well, so it is counted from here on."""
        loop = asyncio.get_running_loop()
        visit = _Visit(visits, source, self._left)
        try:
            await loop.connect_accepted_socket(
                lambda: visit, line, ssl=context, ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=1.0
            )
        except (OSError, asyncio.CancelledError) as trouble:
            line.close()
            visit.leave()
            if isinstance(trouble, asyncio.CancelledError):
                raise

    def _left(self) -> None:
        self._present -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        visit = cast("_Visit", request.protocol)
        asked = Asked(request.method, request.raw_path, request.headers, visit.source)
        try:
            said = await self._api.answer(asked, lambda: _body(request))
        except Exception:  # a mistake of ours: the caller learns nothing, the log everything
            log.exception("%s %s failed", request.method, request.path)
            said = refusal(Failed("this node failed to answer", remedy="read its log: journalctl -u holdfast-agent"))
        return _response(said)


class _Visits(web.Server):
    """aiohttp's protocol factory; every connection is made by hand above."""

    def __init__(self, handler: Any) -> None:
        super().__init__(handler, loop=asyncio.get_running_loop())


class _Visit(web.RequestHandler):
    def __init__(self, visits: _Visits, source: str, left: Callable[[], None]) -> None:
        super().__init__(
            visits,
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
        self._left: Callable[[], None] | None = left
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        abort = cast("asyncio.Transport", transport).abort
        self._clock = asyncio.get_running_loop().call_later(VISIT_S, abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
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
        """What aiohttp cannot parse, in our words and without a traceback in the log."""
        if status >= 500:
            raise ConnectionError("no second answer") from exc
        bad = Invalid("this is not an HTTP request that a node accepts", remedy="send HTTP/1.1 within the limits")
        return _response(refusal(bad))


async def _body(request: web.BaseRequest) -> bytes:
    if (request.content_length or 0) > BODY_BYTES_MAX or request.headers.get("Content-Encoding"):
        raise _too_long()
    content = bytearray()
    try:
        while piece := await request.content.readany():
            content += piece
            if len(content) > BODY_BYTES_MAX:
                raise _too_long()
    except (web.RequestPayloadError, HttpProcessingError):
        raise Invalid("the body of this request is malformed", remedy="send the request again") from None
    return bytes(content)


def _too_long() -> Invalid:
    return Invalid(f"a body has at most {BODY_BYTES_MAX:,} plain bytes", remedy="send less", code="body_too_large")


def _response(said: Answer) -> web.Response:
    answer = web.Response(status=said.status, body=said.body, headers=said.headers, content_type="application/json")
    answer.headers["Cache-Control"] = "no-store"
    answer.force_close()
    return answer


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
