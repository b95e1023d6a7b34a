"""Read a request's body within its limits: size before it is read, then time, then shared memory."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

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
        self._objects = limits.Turnstile(
            limits.OBJECT_BODIES,
            limits.OBJECT_BODIES_WAITING,
            limits.LARGE_WAIT_S,
            "other backup objects are being received",
        )
        self._callers: dict[str, int] = {}  # who is sending objects, and how many

    async def read(self, exchange: Exchange, bytes_max: int, held: AsyncExitStack) -> bytearray:
        request = exchange.request
        check_head(request, too_large(bytes_max), bytes_max)
        share = held.enter_context(self._budget.share())
        large = request.length_bytes > limits.BODY_BYTES_MAX
        if large:
            await held.enter_async_context(self._large.passing())
        if request.headers.get("Expect"):
            await exchange.proceed()
        body = bytearray()
        started_s = asyncio.get_running_loop().time()
        while piece := await _piece(exchange, started_s + limits.body_deadline_s(len(body))):
            if len(body) + len(piece) > bytes_max:
                raise too_large(bytes_max)
            if not large and len(body) + len(piece) > limits.BODY_BYTES_MAX:  # chunked: its length was not known before
                await held.enter_async_context(self._large.passing())
                large, started_s = True, asyncio.get_running_loop().time()
            if not large:
                share.take(len(piece))
            body += piece
        return body

    async def read_object(self, exchange: Exchange, bytes_max: int, caller: str, held: AsyncExitStack) -> bytearray:
        """A backup object, of any size: these wait for each other, and no commit and no check-in waits for them."""
        check_head(exchange.request, object_too_large(bytes_max), bytes_max)
        held.enter_context(self._of(caller))
        await held.enter_async_context(self._objects.passing())
        if exchange.request.headers.get("Expect"):
            await exchange.proceed()
        body = bytearray(exchange.request.length_bytes)  # as long as it will be: growing would copy it
        size, started_s = 0, asyncio.get_running_loop().time()
        while piece := await _piece(exchange, started_s + limits.body_deadline_s(size, limits.OBJECT_BODY_S_MAX)):
            if size + len(piece) > bytes_max:
                raise object_too_large(bytes_max)
            body[size : size + len(piece)] = piece
            size += len(piece)
        del body[size:]
        return body

    @contextmanager
    def _of(self, caller: str) -> Iterator[None]:
        """One caller does not take the places of all."""
        if self._callers.get(caller, 0) >= limits.OBJECT_BODIES_PER_CALLER:
            raise limits.busy("it is receiving other backup objects of this caller")
        self._callers[caller] = self._callers.get(caller, 0) + 1
        try:
            yield
        finally:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]


async def _piece(exchange: Exchange, until_s: float) -> bytes:
    try:
        async with asyncio.timeout_at(until_s):
            return await exchange.piece()
    except TimeoutError:
        raise TryLater(
            "the body of this request did not arrive in time",
            remedy="send it again over a faster link",
            code="request_timeout",
        ) from None


def check_head(request: Request, too_long: Invalid, bytes_max: int) -> None:
    """Everything that can be refused before one byte of the body is read."""
    if request.length_bytes > bytes_max:
        raise too_long
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


def object_too_large(bytes_max: int) -> Invalid:
    return Invalid(
        f"a backup object has at most {bytes_max:,} bytes",
        remedy="store it as several packs",
        code="body_too_large",
    )
