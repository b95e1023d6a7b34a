"""The hub's HTTP interface: form, identity, permission, limits, route, response. Knows no ledger and no fleet.

The order is the one in which a request may cost the hub something.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

from holdfast.errors import HoldfastError, Invalid
from holdfast.hub.http import browser_guard, limits, routes
from holdfast.hub.http.request import Request
from holdfast.hub.http.serving.responses import BYTES, answer
from holdfast.model.stream import PROTOCOL
from holdfast.ports.http_server import JSON
from holdfast.wire import http_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.hub.http.admission import Admission
    from holdfast.hub.http.route import Route
    from holdfast.hub.http.serving.answers import Answers
    from holdfast.hub.http.serving.bodies import Bodies
    from holdfast.hub.http.serving.failures import Failures
    from holdfast.hub.http.serving.workers import Workers
    from holdfast.ports.http_server import Exchange, Response


class Api:
    """The handler of every request, for one event loop."""

    def __init__(
        self,
        *,
        handlers: Mapping[type, object],
        admission: Admission,
        bodies: Bodies,
        workers: Workers,
        failures: Failures,
        answers: Answers,
    ) -> None:
        self._handlers = handlers
        self._admission = admission
        self._bodies = bodies
        self._workers = workers
        self._failures = failures
        self._answers = answers

    async def __call__(self, exchange: Exchange) -> None:
        await self._answers.send(exchange, await self._respond(Request(exchange)))

    async def close(self) -> None:
        await self._failures.close()

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._routed(request)
        except HoldfastError as trouble:
            return self._failures.response(request, trouble)
        except ConnectionError:
            raise  # the caller is gone, so no answer is sent
        except Exception:
            return self._failures.unforeseen(request)

    async def _routed(self, request: Request) -> Response:
        received = request.received
        misused = browser_guard.refusal(browser_guard.visit(received))
        if misused is not None:
            raise misused
        unknown: HoldfastError | None = None
        written: dict[str, str] = {}
        try:
            request.route, written = routes.match(received.method, received.path)
        except HoldfastError as trouble:
            unknown = trouble
        await self._admission.admit(request)
        if unknown is not None:
            raise unknown
        route = request.route
        assert route is not None, "it matched, or it was refused"
        request.path = routes.path_values(written)
        request.query = routes.query_values(route, received.query)
        async with AsyncExitStack() as held:
            if route.check is not None:
                route.check(self._handlers[route.handler], request)
            if route.request is not None:
                await self._read_body(request, route, held)
            request.audited_by_fleet = route.cost == "fleet"
            if route.cost == "stream":
                _check_upgrade(request)
            content = await self._workers.run(route, self._handlers[route.handler], request)
            request.body = b""  # it was large, perhaps, and its place is another's now
        if route.cost == "stream":
            request.connection.force_close()
            raise ConnectionError("the stream is over")
        return answer(cast("bytes", content), JSON if route.answer is not None else BYTES, closes=request.closes)

    async def _read_body(self, request: Request, route: Route, held: AsyncExitStack) -> None:
        exchange, bytes_max, parsed = request.exchange, route.body_bytes_max, request.credential.parsed
        if route.cost == "object":
            request.body = await self._bodies.read_object(exchange, bytes_max, request.connection.identity, held)
        else:
            request.body = await self._bodies.read(exchange, bytes_max, held)
        if parsed is not None and len(request.body) > limits.BODY_BYTES_MAX:
            await self._workers.read(http_signature.check_body, parsed, request.body)  # it takes a while
        elif parsed is not None:
            http_signature.check_body(parsed, request.body)


def _check_upgrade(request: Request) -> None:
    received = request.received
    if received.method != "GET" or received.headers.get("Upgrade", "").lower() != PROTOCOL:
        raise Invalid(
            "this path is one end of a stream, and the request does not ask for one",
            remedy=f"send GET with Upgrade: {PROTOCOL}, as `holdfast logs SERVICE` does",
            code="upgrade_required",
        )
