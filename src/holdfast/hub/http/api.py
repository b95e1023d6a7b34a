"""The hub's HTTP interface: form, identity, permission, limits, route, answer. Knows no ledger and no fleet.

The order is the one in which a request may cost us something: nothing is read, remembered or written for somebody
before it is known who he is and that he may.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import Struct

from holdfast.errors import (
    Failed,
    HoldfastError,
    Invalid,
    Limited,
    NotPermitted,
    SignatureRequired,
    TryLater,
    Unauthenticated,
)
from holdfast.hub.http import browser_guard, limits, routes
from holdfast.hub.http import limiter as limiting
from holdfast.hub.http.authentication import Credential, SkewedClock
from holdfast.hub.http.body import Bodies
from holdfast.hub.http.connection import Connection
from holdfast.hub.http.counter import Counter
from holdfast.hub.http.desk import Ask, Desk
from holdfast.hub.http.errors_http import BYTES, JSON, answer, refusal
from holdfast.hub.orders.relay import Half
from holdfast.model.audit import Event
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.model.stream import PROTOCOL
from holdfast.trust import permissions
from holdfast.wire import http_signature

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from aiohttp import web
    from aiohttp.abc import AbstractStreamWriter

    from holdfast.hub.http.authentication import Authentication
    from holdfast.hub.http.denials import Denials
    from holdfast.hub.http.limiter import Limiter
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey

log = logging.getLogger("holdfast.hub")

ANYBODY = frozenset({"anonymous", "joining", "founder"})  # what a stranger with a fresh key can be
COMPLAIN_AGAIN_S = 3_600.0
TARGET_SHOWN = 200  # characters of a path in the audit log
SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()


class Handlers(Struct, frozen=True):
    """Everybody behind the counter, for one event loop."""

    desk: Desk
    counter: Counter
    authentication: Authentication
    limiter: Limiter
    denials: Denials
    key: IdentityKey  # signs the time for callers whose clock is wrong
    clock: Clock


class Request:
    """A request and what is known of who sends it; grows as the checks go on."""

    def __init__(self, request: web.BaseRequest, connection: Connection) -> None:
        self.request = request
        self.connection = connection
        self.route: routes.Route | None = None
        self.credential = Credential(ANONYMOUS)
        self.is_over = False  # a connection that was somebody's and is nobody's now: it ends with this answer
        self.with_the_fleet = False  # which writes into the audit log what it refuses

    @property
    def principal(self) -> Principal:
        return self.credential.principal

    def event(self, trouble: HoldfastError) -> Event:
        """The refusal as a line for the audit log."""
        action = self.route.operation if self.route else "unknown"
        target = f"{self.request.method} {self.request.rel_url.raw_path}"[:TARGET_SHOWN]
        return Event(str(self.principal), action, target, "denied", trouble.code, self.connection.source)


class Api:
    """`reads` may run side by side; `writes` must be one thread, so that commits queue up instead of colliding."""

    def __init__(self, staff: Handlers, reads: Executor, writes: Executor) -> None:
        self._staff = staff
        self._reads = reads
        self._writes = writes
        self._bodies = Bodies()
        self._answers = limits.Budget(limits.ANSWERS_BYTES_MAX, "too many answers are on their way")
        self._sweeps = limits.Turnstile(
            1, limits.SWEEPS_WAITING, limits.LARGE_WAIT_S, "the whole ledger is being read already"
        )
        self.serving = 0  # requests under way
        self._complained: dict[str, float] = {}  # when our own log said so last, by code
        self._held: set[asyncio.Task[Any]] = set()  # asked of the fleet, which may hold them until it has news

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        connection.begin()
        self.serving += 1
        try:
            who = Request(request, connection)
            response = await self._respond(who)
            if who.is_over:
                response.force_close()
            try:
                async with asyncio.timeout(limits.ANSWER_S):
                    return await self._send(request, response)
            except TimeoutError:
                connection.hang_up()
                raise ConnectionError("the answer was not fetched") from None
        finally:
            self.serving -= 1
            connection.rest()

    async def _respond(self, who: Request) -> web.Response:
        writing = who.request.method == "POST"
        try:
            return await self._routed(who)
        except HoldfastError as trouble:
            if isinstance(trouble, Failed):
                trouble = self._own(trouble)
            refused = isinstance(trouble, NotPermitted | SignatureRequired) or who.route is None
            if refused and not isinstance(trouble, Limited) and not who.with_the_fleet:
                self._staff.denials.record(who.event(trouble))
            allow = trouble.allow if isinstance(trouble, routes.MethodNotAllowed) else ""
            response = refusal(trouble, writing=writing, allow=allow, more=self._hint(trouble))
            if trouble.code == "request_timeout":
                response.force_close()
            return response
        except ConnectionError:
            raise  # he is gone, and nobody is left to be told
        except Exception:
            log.exception("a request failed for a reason nobody foresaw")
            unforeseen = Failed(
                "the hub failed to answer this request",
                remedy="look into the hub's log and report it",
                code="internal",
            )
            return refusal(unforeseen, writing=writing)

    async def _routed(self, who: Request) -> web.Response:
        request = who.request
        misused = browser_guard.refusal(_visit(request))
        if misused is not None:
            raise misused
        unknown: HoldfastError | None = None
        written: dict[str, str] = {}
        try:
            who.route, written = routes.match(request.method, request.rel_url.raw_path)
        except HoldfastError as trouble:
            unknown = trouble
        await self._admit(who)
        if unknown is not None:
            raise unknown
        route = who.route
        assert route is not None, "it matched, or it was refused"
        path = routes.path_values(written)
        query = routes.query_values(route, request.rel_url.query.items())
        async with AsyncExitStack() as held:
            body = bytearray()
            if route.request is not None:
                body = await self._bodies.read(request, route.body_bytes_max, held)
                if who.credential.parsed is not None:
                    http_signature.check_body(who.credential.parsed, body)
            if route.cost == "sweep":
                await held.enter_async_context(self._sweeps.passing())
            ask = Ask(path, query, body, who.principal, who.connection.source, lambda: request.transport is None)
            who.with_the_fleet = route.cost == "fleet"
            if route.cost == "stream":
                await self._relayed(who, route, ask)
            content = await self._carried_out(route, ask)
        return answer(content, JSON if route.answer is not None else BYTES)

    async def _admit(self, who: Request) -> None:
        """Who he is, that he may, not too often, and for the first time."""
        staff, address = self._staff, who.connection.place.address
        now_s = staff.clock.monotonic_s()
        headers = cast("Mapping[str, str]", who.request.headers)
        if not who.connection.place.identity and not staff.authentication.is_known(headers):
            staff.limiter.stranger(address, now_s)
        if who.route is not None and who.route.operation in permissions.PUBLIC:
            staff.limiter.was_stranger(address, now_s)
            return
        try:
            who.credential = await staff.authentication.identify(
                who.request.method, _target(who.request), headers, self._reads
            )
        finally:
            if who.principal.kind in ANYBODY:
                staff.limiter.was_stranger(address, now_s)
                who.is_over = bool(who.connection.place.identity)
        if who.route is not None or who.principal is ANONYMOUS:
            operation = who.route.operation if who.route is not None else ""
            trouble = permissions.may(who.principal, operation)
            if trouble is not None:
                raise trouble
        if who.principal is ANONYMOUS:
            return
        staff.limiter.request(who.principal, now_s)
        await staff.authentication.spend(who.credential)
        if who.principal.kind not in ANYBODY:
            who.connection.identify(limiting.identity(who.principal))

    async def _carried_out(self, route: routes.Route, ask: Ask) -> bytes:
        if route.cost == "fleet":
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            self._held.add(task)
            try:
                return cast("bytes", await route.run(self._staff.counter, ask))
            finally:
                self._held.discard(task)
        executor = self._writes if route.cost == "write" else self._reads
        done = asyncio.get_running_loop().run_in_executor(executor, route.run, self._staff.desk, ask)
        return cast("bytes", await done)

    async def _relayed(self, who: Request, route: routes.Route, ask: Ask) -> NoReturn:
        """No answer follows: what is said last is 101, and the connection ends with the stream."""
        if who.request.method != "GET" or who.request.headers.get("Upgrade", "").lower() != PROTOCOL:
            raise Invalid(
                "this path is one end of a stream, and the request does not ask for one",
                remedy=f"send GET with Upgrade: {PROTOCOL}; holdfast logs does",
                code="upgrade_required",
            )
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._held.add(task)
        try:
            meeting, end = await route.run(self._staff.counter, ask)
            half = Half(who.connection)
            try:
                await who.connection.switch(half, SWITCH)
                await meeting.run(end, half)
            finally:
                self._staff.counter.relay.leave(meeting)
        finally:
            self._held.discard(task)
        who.connection.force_close()
        raise ConnectionError("the stream is over")

    def _own(self, trouble: Failed) -> Failed:
        """Our disk and not the caller's: he is told whose, and our log says it once, however many ask meanwhile."""
        now_s = self._staff.clock.monotonic_s()
        if now_s - self._complained.get(trouble.code, -COMPLAIN_AGAIN_S) >= COMPLAIN_AGAIN_S:
            self._complained[trouble.code] = now_s
            log.error("%s: %s; %s", trouble.code, trouble.message, trouble.remedy)
        return Failed(f"on the hub: {trouble.message}", remedy=f"on the hub: {trouble.remedy}", code=trouble.code)

    def let_go(self) -> None:
        """The hub stops: nobody is held any longer. Whatever was durable by now stays so; callers come again."""
        for task in self._held:
            task.cancel()

    def _hint(self, trouble: HoldfastError) -> dict[str, str]:
        """What a caller needs to do better next time: the hub's time, signed; which fleet is served here."""
        if isinstance(trouble, Unauthenticated) and trouble.code == "other_fleet":
            return {http_signature.FLEET: self._staff.authentication.fleet}
        if not isinstance(trouble, SkewedClock):
            return {}
        return http_signature.sign_response(self._staff.key, 401, int(self._staff.clock.now_s()), trouble.nonce)

    async def _send(self, request: web.BaseRequest, response: web.Response) -> web.Response:
        """Written here and not by aiohttp, so that its memory and its time are counted."""
        with self._answers.share() as share:
            size_bytes = len(cast("bytes", response.body))
            if size_bytes > limits.SMALL_ANSWER_BYTES:
                try:
                    share.take(size_bytes)
                except TryLater as trouble:
                    response = refusal(trouble, writing=False)
            writer = await response.prepare(request)
            if size_bytes > limits.SMALL_ANSWER_BYTES and writer is not None and request.method != "HEAD":
                await _piecewise(cast("bytes", response.body), writer)
                response.body = None
            await response.write_eof()
            await request.writer.drain()
        return response


async def _piecewise(body: bytes, writer: AbstractStreamWriter) -> None:
    """So that what a slow reader has not fetched is ours to count, and not in some buffer below TLS."""
    view = memoryview(body)
    for at in range(0, len(view), limits.PIECE_BYTES):
        await writer.write(view[at : at + limits.PIECE_BYTES])
        await writer.drain()


def _visit(request: web.BaseRequest) -> browser_guard.Visit:
    origins, sites, content_types = (
        tuple(request.headers.getall(name, ())) for name in ("Origin", "Sec-Fetch-Site", "Content-Type")
    )
    return browser_guard.Visit(request.method, origins, sites, content_types)


def _target(request: web.BaseRequest) -> str:
    """Path and query exactly as sent; of the absolute form, which names us once more, what follows our name."""
    sent = request.raw_path
    if sent.startswith("/"):
        return sent
    _, _, rest = sent.partition("://")
    return "/" + rest.partition("/")[2]
