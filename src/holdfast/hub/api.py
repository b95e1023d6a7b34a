"""The hub's HTTP interface: form, limits, route, answer. Knows no ledger; every refusal has a remedy (I-07)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.hub import limits, openapi, routes, visitor
from holdfast.hub.body import Bodies
from holdfast.hub.connection import Connection
from holdfast.hub.desk import Ask, Desk
from holdfast.hub.errors_http import BYTES, JSON, answer, refusal

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from aiohttp import web

    from holdfast.ports.hub_link import HubLink

log = logging.getLogger("holdfast.hub")


class Api:
    """`reads` may run side by side; `writes` must be one thread, so that commits queue up instead of colliding."""

    def __init__(self, hub: HubLink, reads: Executor, writes: Executor) -> None:
        self._desk = Desk(hub, openapi.document())
        self._reads = reads
        self._writes = writes
        self._bodies = Bodies()
        self._answers = limits.Budget(limits.ANSWERS_BYTES_MAX, "too many answers are on their way")
        self._sweeps = limits.Turnstile(
            1, limits.SWEEPS_WAITING, limits.LARGE_WAIT_S, "the whole ledger is being read already"
        )
        self.serving = 0  # requests under way

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        connection.begin(request)
        self.serving += 1
        try:
            response = await self._respond(request)
            try:
                async with asyncio.timeout(limits.ANSWER_S):
                    return await self._send(request, response)
            except TimeoutError:
                connection.hang_up()
                raise ConnectionError("the answer was not fetched") from None
        finally:
            self.serving -= 1
            connection.rest()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        writing = request.method == "POST"
        try:
            return await self._routed(request)
        except routes.MethodNotAllowed as trouble:
            return refusal(trouble, writing=writing, allow=trouble.allow)
        except HoldfastError as trouble:
            response = refusal(trouble, writing=writing)
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

    async def _routed(self, request: web.BaseRequest) -> web.Response:
        trouble = visitor.refusal(_visit(request))
        if trouble is not None:
            raise trouble
        route, written = routes.match(request.method, request.rel_url.raw_path)
        path = routes.path_values(written)
        query = routes.query_values(route, request.rel_url.query.items())
        async with AsyncExitStack() as held:
            body = bytearray()
            if route.request is not None:
                body = await self._bodies.read(request, route.body_bytes_max, held)
            if route.cost == "sweep":
                await held.enter_async_context(self._sweeps.passing())
            executor = self._writes if route.cost == "write" else self._reads
            ask = Ask(path, query, body)
            content = await asyncio.get_running_loop().run_in_executor(executor, route.run, self._desk, ask)
        return answer(content, JSON if route.answer is not None else BYTES)

    async def _send(self, request: web.BaseRequest, response: web.Response) -> web.Response:
        """Written here and not by aiohttp, so that its memory and its time are counted."""
        with self._answers.share() as share:
            size_bytes = len(cast("bytes", response.body))
            if size_bytes > limits.SMALL_ANSWER_BYTES:
                try:
                    share.take(size_bytes)
                except TryLater as trouble:
                    response = refusal(trouble, writing=False)
            await response.prepare(request)
            await response.write_eof()
            await request.writer.drain()
        return response


def _visit(request: web.BaseRequest) -> visitor.Visit:
    hosts, origins, sites, content_types = (
        tuple(request.headers.getall(name, ())) for name in ("Host", "Origin", "Sec-Fetch-Site", "Content-Type")
    )
    return visitor.Visit(request.method, hosts, origins, sites, content_types)
