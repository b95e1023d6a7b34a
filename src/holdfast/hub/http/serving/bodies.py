"""Read a request's body within its limits: size before it is read, then time, then shared memory."""

import asyncio
from contextlib import AsyncExitStack

from holdfast.errors import Invalid, TryLater
from holdfast.hub.http import limits
from holdfast.ports.http_server import Exchange, Request


class Bodies:
    """The memory that all bodies share. A body holds its part until `held` is closed."""

    def __init__(self) -> None:
        self._budget = limits.Budget(limits.BODIES_BYTES_MAX, "too many requests bring a body")
        self._large = limits.Turnstile(
            limits.LARGE_BODIES, limits.LARGE_BODIES_WAITING, limits.LARGE_WAIT_S, "other large commits are under way"
        )

    async def read(self, exchange: Exchange, bytes_max: int, held: AsyncExitStack) -> bytearray:
        request = exchange.request
        check_head(request, bytes_max)
        share = held.enter_context(self._budget.share())
        large = request.length_bytes > limits.BODY_BYTES_MAX
        if large:
            await held.enter_async_context(self._large.passing())
        if request.headers.get("Expect"):
            await exchange.proceed()
        body = bytearray()
        started_s = asyncio.get_running_loop().time()
        while piece := await self._piece(exchange, started_s, len(body)):
            if len(body) + len(piece) > bytes_max:
                raise too_large(bytes_max)
            if not large and len(body) + len(piece) > limits.BODY_BYTES_MAX:  # chunked: its length was not known before
                await held.enter_async_context(self._large.passing())
                large, started_s = True, asyncio.get_running_loop().time()
            if not large:
                share.take(len(piece))
            body += piece
        return body

    async def _piece(self, exchange: Exchange, started_s: float, received_bytes: int) -> bytes:
        try:
            async with asyncio.timeout_at(started_s + limits.body_deadline_s(received_bytes)):
                return await exchange.piece()
        except TimeoutError:
            raise TryLater(
                "the body of this request did not arrive in time",
                remedy="send it again over a faster link",
                code="request_timeout",
            ) from None


def check_head(request: Request, bytes_max: int) -> None:
    """Everything that can be refused before one byte of the body is read."""
    if request.length_bytes > bytes_max:
        raise too_large(bytes_max)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Invalid("compressed bodies are not read", remedy="send it as it is", code="content_encoding")
    if request.headers.get("Expect", "100-continue").lower() != "100-continue":
        raise Invalid("only 100-continue can be expected", remedy="leave Expect out", code="expectation_failed")


def too_large(bytes_max: int) -> Invalid:
    return Invalid(
        f"the body of this request is longer than {bytes_max:,} bytes",
        remedy="apply the change in smaller steps: holdfast deploy SERVICE",
        code="body_too_large",
    )
