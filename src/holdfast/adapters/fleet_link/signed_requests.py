"""Signed requests of an agent to the pinned hub, and its answers, checked: a refusal becomes an error of ours."""

from __future__ import annotations

import asyncio
import io
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import aiohttp
from msgspec import Struct
from yarl import URL

from holdfast.adapters.http_client import hub_address
from holdfast.adapters.http_client.session import bounded_session
from holdfast.adapters.http_client.signing import Signing
from holdfast.adapters.tls import client
from holdfast.errors import HoldfastError, Invalid, Limited, Unauthenticated, Unreachable
from holdfast.model import ssh_key
from holdfast.wire import codec, faults, http_signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource

T = TypeVar("T")

THERE_S = 2.0
CONNECT_S = 10.0  # TCP and TLS together
ANSWER_S = 15.0  # beyond what the hub was allowed to hold
IDLE_S = 60.0
LARGE_BYTES = 1024 * 1024
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
REFUSAL_BYTES_MAX = 64 * 1024
RETRY_AFTER_S_MAX = 3600.0


class Answered(Struct, frozen=True):
    """A hub's whole answer, and the nonce of the request it answers."""

    status: int
    headers: dict[str, str]
    body: bytes
    nonce: str


class SignedRequests:
    """`fleet` is called for every request: it gives "" until the first revision was accepted."""

    def __init__(
        self, url: str, hub_key: str, key: IdentityKey, fleet: Callable[[], str], clock: Clock, random: RandomSource
    ) -> None:
        address = hub_address.parse(url)
        self._url = address.url
        self._at = (address.host, address.port)
        self._context = client.pinned_context(hub_key, address.host, clock.now_s)
        self._hub_key = hub_key
        self._to = ssh_key.fingerprint(ssh_key.parse(hub_key))
        self._signing = Signing(key, clock, random)
        self._fleet = fleet
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ---- requests

    async def is_there(self) -> bool:
        try:
            async with asyncio.timeout(THERE_S):
                _, writer = await asyncio.open_connection(*self._at)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def post(self, target: str, message: object, kind: type[T], answer_s: float) -> T:
        return self.message(await self.ask("POST", target, codec.write(message), MESSAGE_BYTES_MAX, answer_s), kind)

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes | None,
        bytes_max: int,
        answer_s: float = ANSWER_S,
        kind: str = "application/json",
    ) -> Answered:
        """A large body is signed in a thread, and sent when the hub says that it takes it (100 Continue)."""
        nonce, is_large = "", body is not None and len(body) > LARGE_BYTES

        async def signed(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            """Runs for every attempt, also for one that aiohttp repeats: a nonce is never sent twice."""
            nonlocal nonce
            sign = partial(self._signing.sign, method, target, body, fleet=self._fleet(), to=self._to)
            made = await asyncio.to_thread(sign) if is_large else sign()
            nonce = made.nonce
            request.headers.update(made.headers)
            return await handler(request)

        limit = aiohttp.ClientTimeout(total=CONNECT_S + answer_s, sock_connect=CONNECT_S)
        about = {"Content-Type": kind} if body is not None else None
        try:
            async with self._open().request(
                method,
                URL(self._url + target, encoded=True),
                data=io.BytesIO(body) if body is not None and is_large else body,
                headers=about,
                expect100=is_large,
                timeout=limit,
                allow_redirects=False,
                middlewares=(signed,),
            ) as answer:
                content = await self._content(answer, bytes_max if answer.status == 200 else REFUSAL_BYTES_MAX)
                return Answered(answer.status, dict(answer.headers), content, nonce)
        except TimeoutError as trouble:
            raise self.unreachable("it took too long") from trouble
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            raise client.refusal(trouble) or self.unreachable(_reason(trouble)) from trouble

    async def _content(self, answer: aiohttp.ClientResponse, bytes_max: int) -> bytes:
        content = bytearray()
        while piece := await answer.content.readany():
            content += piece
            if len(content) > bytes_max:
                answer.close()
                raise self.unreachable(f"its answer is longer than {bytes_max:,} bytes")
        return bytes(content)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = bounded_session(self._context, 2, keepalive_timeout=IDLE_S)
        return self._session

    # ---- answers

    def message(self, answered: Answered, kind: type[T]) -> T:
        content = self.checked(answered).body
        try:
            return codec.read(content, kind)
        except Invalid as trouble:
            raise self.unreachable(f"its answer cannot be read: {trouble.message}") from trouble

    def checked(self, answered: Answered) -> Answered:
        if answered.status == 200:
            return answered
        try:
            fault = codec.read(answered.body, faults.Fault)
        except Invalid:
            raise self.unreachable(f"it answers {answered.status} without a hub's error message") from None
        if answered.status == 429:
            limited = faults.marked(Limited, fault)
            limited.retry_after_s = _retry_after_s(answered.headers)
            raise limited
        if answered.status == 401 and fault.code == "clock_skew":
            raise self._skewed(answered)
        raise faults.trouble(fault, answered.status, _header(answered.headers, faults.EXIT_HEADER))

    def _skewed(self, answered: Answered) -> HoldfastError:
        """The hub's time counts only if the hub signed it, for this very request."""
        try:
            hub_s = http_signature.verify_response(answered.status, answered.headers, self._hub_key, answered.nonce)
        except Unauthenticated as trouble:
            return self.unreachable(f"its time is not proven: {trouble.message}")
        off_s = int(self._clock.now_s()) - hub_s
        return Unreachable(
            f"the clock of this machine is {abs(off_s):,} s {'ahead of' if off_s > 0 else 'behind'} the hub's",
            remedy="set the clock of whichever machine is wrong: timedatectl set-ntp true",
            code="clock_skew",
        )

    def unreachable(self, why: str) -> Unreachable:
        return Unreachable(
            f"no valid answer from the hub at {self._url}: {why}",
            remedy="check that the hub runs there and can be reached from this machine",
        )


def _header(headers: dict[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name.lower()), "")


def _retry_after_s(headers: dict[str, str]) -> float:
    text = _header(headers, "Retry-After")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else faults.RETRY_AFTER_S
    return min(max(float(seconds), 0.1), RETRY_AFTER_S_MAX)


def _reason(trouble: BaseException) -> str:
    if isinstance(trouble, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(trouble, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return str(trouble.__cause__ or trouble)
    return str(trouble) or type(trouble).__name__
