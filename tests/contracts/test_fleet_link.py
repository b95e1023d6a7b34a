"""An agent's line to its hub, in memory and over HTTPS: the same calls, the same answers; there also its bounds."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import web

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link import http, signed_requests
from holdfast.adapters.fleet_link.http import HttpFleetLink
from holdfast.adapters.fleet_link.memory import MemoryFleetLink
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.tls.client import WrongHub
from holdfast.errors import (
    Conflict,
    Corrupt,
    HoldfastError,
    Invalid,
    Limited,
    NotPermitted,
    TryLater,
    Unreachable,
)
from holdfast.model import canonical, ssh_key
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.invite import Enrolment, SignedInvite
from holdfast.model.record import Link
from holdfast.model.revision import Head
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.ports.fleet_link import FleetLink
from holdfast.wire import codec, faults, http_signature, messages
from tests.fleets.tls_peers import HOST, OURS, Eavesdropper, impostors

FLEET = "f" * 64
NODE = MemoryIdentityKey(b"n" * 32)
HUB = MemoryIdentityKey(OURS.private.private_bytes_raw())
HEAD = Head(7, "a" * 64)
CONTENT = b'{"a":1}'
CHAIN = [Link(str(number).encode(), ("signature",), b"trust") for number in range(1, 1201)]
JOINING = JoinRequest(Enrolment(SignedInvite(b"invite", ("s",)), b"joining", "s", "p"), "w1", ("worker",))
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Desk:
    """A hub that knows one node, one content and 1,200 revisions."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    async def join(self, request: JoinRequest) -> JoinAnswer:
        self.heard.append(request)
        if request.name != "w1":
            raise NotPermitted("not this name", remedy="use yours", code="identity_mismatch")
        return JoinAnswer(True, HEAD, 1.0)

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        self.heard.append(message)
        await asyncio.sleep(min(message.wait_s, 0.05))
        return CheckInAnswer(HEAD, 2.5, manifest=b"manifest", registered=message.node == "w1")

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        self.heard.append(part)
        return SalvageAnswer(True, HEAD, missing=("0" * 64,))

    def links(self, first: int, last: int) -> Sequence[Link]:
        return CHAIN[first - 1 : last][: messages.PAGE_LINKS]

    def blob(self, digest: str) -> bytes | None:
        return CONTENT if digest == canonical.digest(CONTENT) else None


# ---- a hub over HTTPS, strict about what it is asked

Handler = Callable[[web.BaseRequest, bytes], Awaitable[web.Response]]


class Served:
    def __init__(self) -> None:
        self.port = 0
        self.connections: set[object] = set()
        self.nonces: list[str] = []


@asynccontextmanager
async def served(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    state = Served()

    async def handle(request: web.BaseRequest) -> web.Response:
        state.connections.add(request.transport)
        body = await request.read()
        parsed = http_signature.read(request.method, request.raw_path, request.headers)
        http_signature.check_time(parsed, SystemClock().now_s())
        http_signature.check_signature(parsed)
        http_signature.check_body(parsed, body)
        assert parsed.to == ssh_key.fingerprint(ssh_key.parse(OURS.line))
        assert (parsed.line, parsed.fleet) == (NODE.line, FLEET)
        assert parsed.nonce not in state.nonces
        state.nonces.append(parsed.nonce)
        return await handler(request, body)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0, ssl_context=context or OURS.context())
    await site.start()
    state.port = runner.addresses[0][1]
    try:
        yield state
    finally:
        await runner.cleanup()


def over_http(desk: Desk) -> Handler:
    async def handle(request: web.BaseRequest, body: bytes) -> web.Response:
        try:
            return web.Response(body=await answer(request, body))
        except HoldfastError as trouble:
            return refused(trouble)

    async def answer(request: web.BaseRequest, body: bytes) -> bytes:
        if request.path == "/v1/join":
            return codec.write(await desk.join(codec.read(body, JoinRequest)))
        if request.path == "/v1/check-in":
            return codec.write(await desk.check_in(codec.read(body, CheckIn)))
        if request.path == "/v1/salvage":
            return codec.write(await desk.salvage(codec.read(body, SalvagePart)))
        if request.path == "/v1/links":
            first, last = int(request.query["first"]), int(request.query["last"])
            return codec.write(messages.LinksPage(tuple(desk.links(first, last))))
        found = desk.blob(request.path.rpartition("/")[2])
        if found is None:
            raise Invalid("no such content", remedy="ask for another", code="not_found")
        return found

    return handle


def refused(trouble: HoldfastError) -> web.Response:
    headers = {faults.EXIT_HEADER: str(trouble.exit_code)}
    return web.Response(
        status=faults.status(trouble, writing=True), body=codec.write(faults.fault(trouble)), headers=headers
    )


def dial(port: int, host: str = HOST) -> HttpFleetLink:
    return HttpFleetLink(f"https://{host}:{port}", OURS.line, NODE, lambda: FLEET, SystemClock(), SystemRandom())


Test = Callable[[FleetLink, Desk], Coroutine[Any, Any, None]]


@pytest.fixture(params=["memory", "https asyncio", "https uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    kind, _, loop = request.param.partition(" ")

    async def live(test: Test) -> None:
        desk = Desk()
        if kind == "memory":
            await test(MemoryFleetLink(lambda: _ready(desk)), desk)
            return
        async with served(over_http(desk)) as hub:
            link = dial(hub.port)
            try:
                await test(link, desk)
            finally:
                await link.close()

    def runner(test: Test) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop or "asyncio"]) as loops:
            loops.run(asyncio.wait_for(live(test), 60))

    return runner


async def _ready(desk: Desk) -> Desk:
    return desk


# ---- the contract


def test_joining_and_checking_in_say_what_was_said(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        assert await link.join(JOINING) == JoinAnswer(True, HEAD, 1.0)
        message = CheckIn("w1", HEAD, heartbeat=True, wait_s=0.02, roles=("worker",), audit=(b"line",))
        assert await link.check_in(message) == CheckInAnswer(HEAD, 2.5, manifest=b"manifest")
        assert desk.heard == [JOINING, message]

    run(test)


def test_a_refusal_comes_through_with_family_code_and_words(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        with pytest.raises(NotPermitted) as refusal:
            await link.join(JoinRequest(JOINING.enrolment, "w2"))
        assert refusal.value.code == "identity_mismatch" and "not this name" in refusal.value.message

    run(test)


def test_links_come_in_order_and_whole(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        assert await link.links(3, 5) == CHAIN[2:5]
        assert await link.links(5, 4) == []

    run(test)


def test_a_content_is_given_or_not(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        assert await link.blob(canonical.digest(CONTENT)) == CONTENT
        assert await link.blob("0" * 64) is None

    run(test)


def test_a_hub_that_takes_connections_is_there_and_hears_nothing_m74(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        assert await link.is_there() and desk.heard == []

    run(test)


def test_a_hub_that_takes_no_connection_is_not_there_m74(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, or not answered at all: then within its time limit."""
    monkeypatch.setattr(signed_requests, "THERE_S", 0.2)

    async def live() -> None:
        async with served(over_http(Desk())) as hub:
            port = hub.port
        assert not await dial(port).is_there()
        with socket.create_server((HOST, 0), backlog=1) as full:
            filling = [socket.socket() for _ in range(8)]
            for one in filling:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            assert not await dial(full.getsockname()[1]).is_there()
            for one in filling:
                one.close()
        assert not await MemoryFleetLink(lambda: _ready(Desk()), lambda: False).is_there()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_what_is_salvaged_arrives_as_it_was(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        part = SalvagePart(FLEET, "w1", tuple(CHAIN[:2]), b"manifest", {canonical.digest(CONTENT): CONTENT})
        assert await link.salvage(part) == SalvageAnswer(True, HEAD, missing=("0" * 64,))
        assert desk.heard == [part]

    run(test)


def test_closing_twice_is_closing_once(run: Callable[[Test], None]) -> None:
    async def test(link: FleetLink, desk: Desk) -> None:
        await link.check_in(CheckIn("w1"))
        await link.close()
        await link.close()

    run(test)


# ---- over HTTPS


def alone(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_more_links_than_a_page_holds_are_fetched_page_by_page() -> None:
    async def work() -> None:
        async with served(over_http(Desk())) as hub:
            link = dial(hub.port)
            assert await link.links(1, 1200) == CHAIN
            await link.close()
            assert len(hub.nonces) == 3

    alone(work())


def test_one_connection_serves_many_check_ins_and_no_nonce_comes_twice() -> None:
    async def work() -> None:
        async with served(over_http(Desk())) as hub:
            link = dial(hub.port)
            for _ in range(20):
                await link.check_in(CheckIn("w1"))
            await link.close()
            assert len(hub.connections) == 1
            assert len(set(hub.nonces)) == 20

    alone(work())


def test_a_connection_that_died_while_idle_is_replaced_and_the_request_signed_anew() -> None:
    """GET is repeated by the library; the strict hub above would refuse the same nonce again."""

    async def work() -> None:
        cut = True

        async def handle(request: web.BaseRequest, body: bytes) -> web.Response:
            nonlocal cut
            if cut and request.method == "GET":
                cut = False
                assert request.transport is not None
                request.transport.abort()
                await asyncio.sleep(0.2)
            return await over_http(Desk())(request, body)

        async with served(handle) as hub:
            link = dial(hub.port)
            await link.check_in(CheckIn("w1"))
            assert await link.blob(canonical.digest(CONTENT)) == CONTENT
            await link.close()
            assert len(hub.nonces) == 3

    alone(work())


def answering(answer: Callable[[], web.Response]) -> Handler:
    async def handle(request: web.BaseRequest, body: bytes) -> web.Response:
        return answer()

    return handle


async def trouble_of(handler: Handler, digest: str | None = None) -> HoldfastError:
    async with served(handler) as hub:
        link = dial(hub.port)
        try:
            await (link.blob(digest) if digest else link.check_in(CheckIn("w1")))
        except HoldfastError as trouble:
            return trouble
        finally:
            await link.close()
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(("said", "heard_s"), [("17", 17.0), ("0", 0.1), ("999999", 3600.0), ("soon", 2.0), ("", 2.0)])
def test_being_limited_says_when_to_come_back(said: str, heard_s: float) -> None:
    """M-28: 429 with Retry-After, bounded whatever the hub says."""
    fault = codec.write(faults.Fault("resource_exhausted", "too often", "wait"))

    async def work() -> None:
        answer = answering(lambda: web.Response(status=429, body=fault, headers={"Retry-After": said}))
        trouble = await trouble_of(answer)
        assert isinstance(trouble, Limited) and trouble.retry_after_s == heard_s

    alone(work())


@pytest.mark.parametrize(
    ("answer", "family", "words"),
    [
        (lambda: web.Response(body=b"{"), Unreachable, "cannot be read"),
        (lambda: web.Response(body=b'{"head":3}'), Unreachable, "cannot be read"),
        (lambda: web.Response(status=502, body=b"<html>"), Unreachable, "502"),
        (lambda: web.Response(status=302, headers={"Location": "https://evil.example/"}), Unreachable, "302"),
        (lambda: refused(Conflict("stale", remedy="again")), Conflict, "stale"),
        (lambda: refused(TryLater("busy", remedy="again")), TryLater, "busy"),
        (lambda: web.Response(body=b" " * (signed_requests.MESSAGE_BYTES_MAX + 1)), Unreachable, "longer than"),
        (
            lambda: web.Response(status=400, body=b" " * (signed_requests.REFUSAL_BYTES_MAX + 1)),
            Unreachable,
            "longer than",
        ),
    ],
)
def test_answers_that_are_none_are_said_to_be_so(
    answer: Callable[[], web.Response], family: type[HoldfastError], words: str
) -> None:
    async def work() -> None:
        trouble = await trouble_of(answering(answer))
        assert isinstance(trouble, family) and words in trouble.message

    alone(work())


def test_content_under_a_wrong_digest_is_refused() -> None:
    async def work() -> None:
        trouble = await trouble_of(answering(lambda: web.Response(body=b"other")), canonical.digest(CONTENT))
        assert isinstance(trouble, Corrupt)

    alone(work())


def skewed(time_s: int, key: MemoryIdentityKey, nonce_of: Callable[[str], str]) -> Handler:
    async def handle(request: web.BaseRequest, body: bytes) -> web.Response:
        parsed = http_signature.read(request.method, request.raw_path, request.headers)
        proof = http_signature.sign_response(key, 401, time_s, nonce_of(parsed.nonce))
        return web.Response(
            status=401, body=codec.write(faults.Fault("clock_skew", "wrong clock", "set it")), headers=proof
        )

    return handle


def test_the_hubs_time_counts_only_with_its_own_signature_for_this_request() -> None:
    """A clock that is off is told so by the hub, signed; nobody else can make a node doubt its clock."""

    async def work() -> None:
        there_s = int(SystemClock().now_s()) - 500
        told = await trouble_of(skewed(there_s, HUB, lambda nonce: nonce))
        assert told.code == "clock_skew" and "ahead of the hub's" in told.message
        for forged in (
            skewed(there_s, NODE, lambda nonce: nonce),
            skewed(there_s, HUB, lambda nonce: "A" * 22 + "=="),
        ):
            trouble = await trouble_of(forged)
            assert trouble.code != "clock_skew" and isinstance(trouble, TryLater)

    alone(work())


def test_a_hub_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.2)
    monkeypatch.setattr(signed_requests, "CONNECT_S", 0.3)

    async def silent(request: web.BaseRequest, body: bytes) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def work() -> None:
        trouble = await trouble_of(silent)
        assert isinstance(trouble, Unreachable) and "too long" in trouble.message

    alone(work())


def test_a_handshake_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_requests, "CONNECT_S", 0.3)

    async def work() -> None:
        mute = await asyncio.start_server(lambda reader, writer: None, HOST, 0)
        link = dial(mute.sockets[0].getsockname()[1])
        with pytest.raises(Unreachable):
            await link.check_in(CheckIn("w1"))
        await link.close()
        mute.close()

    alone(work())


def test_nobody_there_is_unreachable() -> None:
    async def work() -> None:
        link = dial(1)
        with pytest.raises(Unreachable):
            await link.check_in(CheckIn("w1"))
        await link.close()

    alone(work())


@pytest.mark.parametrize("url", ["http://127.0.0.1:9555", "https://", "https://a:0", "https://a:70000", "https://a/x"])
def test_only_https_addresses_are_hubs(url: str) -> None:
    with pytest.raises(Invalid):
        HttpFleetLink(url, OURS.line, NODE, lambda: FLEET, SystemClock(), SystemRandom())


@pytest.mark.parametrize("loop", list(LOOPS))
@pytest.mark.parametrize("impostor", list(impostors()))
def test_an_impostor_hears_not_one_byte(impostor: str, loop: str) -> None:
    """S01, A1, M-19: wrong key, expired, not yet valid, wrong name, old TLS; the agent sends 0 application bytes."""
    with Eavesdropper(impostors()[impostor]) as ear:

        async def work() -> None:
            link = dial(ear.port)
            try:
                with pytest.raises(TryLater) as refusal:
                    await link.check_in(CheckIn("w1"))
                if impostor != "TLS 1.2":
                    assert isinstance(refusal.value, WrongHub), refusal.value
            finally:
                await link.close()

        with asyncio.Runner(loop_factory=LOOPS[loop]) as loops:
            loops.run(asyncio.wait_for(work(), 60))
        ear.settle()
        assert bytes(ear.heard) == b""


def test_the_ear_hears_when_it_is_the_right_one() -> None:
    """The test above would see a byte if one came."""
    with Eavesdropper(OURS.context()) as ear:

        async def work() -> None:
            link = dial(ear.port)
            asking = asyncio.ensure_future(link.check_in(CheckIn("w1")))
            while not ear.heard and not asking.done():
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await link.close()

        alone(work())
        assert ear.heard.startswith(b"POST /v1/check-in HTTP/1.1\r\n")
