"""Calling a node, in memory and over HTTPS: the pinned one hears it, anybody else is refused and told nothing."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace

from holdfast.adapters.agent_link import http as over_http
from holdfast.adapters.agent_link.http import HttpAgentLink
from holdfast.adapters.agent_link.memory import MemoryAgentLink, MemoryDoor
from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.http_server.node import NodeServer
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.nonces.memory import MemoryNonces
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.tls.server import IssuedTls, server_context
from holdfast.agent.local_api.api import Holding, LocalApi, NodeStatus
from holdfast.errors import HoldfastError, Invalid, TryLater, Unreachable
from holdfast.model.fleet import Settings
from holdfast.model.trust import Trust
from holdfast.ports.agent_link import AgentLink, Callee, WrongNode
from holdfast.trust import certificates as rules
from tests.fleets.need_net import Nothing
from tests.fleets.tls_peers import DAY_S, HOST, THEIRS, Eavesdropper
from tests.fleets.waiting import Stopwatch

NODE, HUB, STRANGER = (MemoryIdentityKey(seed * 32) for seed in (b"n", b"h", b"x"))
SETTINGS = Settings("lab", internal_zone="svc.lab.test")
NAME = rules.listener_name("w1", ("worker",), SETTINGS)
WANTED = rules.constraints("w1", ("worker",), SETTINGS)
FLEET = "f" * 64


class Node:
    def __init__(self) -> None:
        self.knocks = 0

    def status(self) -> NodeStatus:
        return NodeStatus("w1", "0", "healthy", "idle", 1.0, time.time())

    def manifest(self) -> bytes | None:
        return None

    def holdings(self) -> tuple[Holding, ...]:
        return ()

    def knock(self) -> None:
        self.knocks += 1

    def hub_key(self) -> str:
        return HUB.line

    def fleet(self) -> str:
        return FLEET

    def node_of(self, line: str) -> str:
        return ""

    def trust(self) -> Trust | None:
        return None


class Scene(Protocol):
    """One node that listens, and how to reach it as a hub with a given key."""

    callee: Callee

    def link(self, key: MemoryIdentityKey) -> AgentLink: ...

    @property
    def knocks(self) -> int: ...


class InMemory:
    def __init__(self) -> None:
        self.door = MemoryDoor(NODE.line, b"issuer", NAME, HUB.line, FLEET)
        self.callee = Callee("w1", "100.64.0.1:9444", NODE.line, b"issuer", NAME, FLEET)

    def link(self, key: MemoryIdentityKey) -> AgentLink:
        link = MemoryAgentLink(key.line)
        link.doors["100.64.0.1", 9444] = self.door
        return link

    @property
    def knocks(self) -> int:
        return self.door.knocks


class OverHttp:
    def __init__(self, state: Path) -> None:
        clock = SystemClock()
        self.node = Node()
        self.audit = MemoryAuditLog(clock)
        certificates = X509Certificates(str(state), PosixDisk())
        issuer = certificates.issuer("w1", WANTED, time.time())
        api = LocalApi(self.node, Nothing(), NODE, MemoryNonces(clock), self.audit, clock)
        self._listener = NodeServer(api, lambda: certificates.serving((NAME,), time.time()), IssuedTls(), HOST, 0)
        self.callee = Callee("w1", "", NODE.line, issuer, NAME, FLEET)

    def link(self, key: MemoryIdentityKey) -> AgentLink:
        return HttpAgentLink(key, SystemClock(), SystemRandom())

    @property
    def knocks(self) -> int:
        return self.node.knocks

    @contextmanager
    def listening(self) -> Iterator[None]:
        ready = threading.Event()
        loop = asyncio.new_event_loop()
        task: list[asyncio.Task[None]] = []

        def hear(port: int) -> None:
            self.callee = replace(self.callee, address=f"{HOST}:{port}")
            ready.set()

        async def live() -> None:
            task.append(asyncio.ensure_future(self._listener.run(hear)))
            with suppress(asyncio.CancelledError):
                await task[0]

        thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
        thread.start()
        try:
            assert ready.wait(60)
            yield
        finally:
            loop.call_soon_threadsafe(task[0].cancel)
            thread.join(60)
            loop.close()


@pytest.fixture(params=["memory", "http"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    if request.param == "memory":
        yield InMemory()
        return
    made = OverHttp(tmp_path)
    with made.listening():
        yield made


def other_issuer() -> bytes:
    return x509.der_of(issuing.make_issuer(issuing.make_key(), "w1", WANTED, time.time()))


def trouble(link: AgentLink, callee: Callee) -> HoldfastError:
    with pytest.raises(HoldfastError) as told:
        asyncio.run(link.knock(callee))
    assert told.value.message and told.value.remedy
    return told.value


# ---- both


def test_the_pinned_node_hears_its_hub(scene: Scene) -> None:
    """C-01, M-55: also twice; each call is a request of its own."""
    for count in (1, 2):
        asyncio.run(scene.link(HUB).knock(scene.callee))
        assert scene.knocks == count


def test_somebody_elses_signature_or_one_for_somebody_else_is_refused(scene: Scene) -> None:
    """I-12, S01"""
    for key, callee, code in (
        (STRANGER, scene.callee, "unknown_key"),
        (HUB, replace(scene.callee, key=STRANGER.line), "other_recipient"),
        (HUB, replace(scene.callee, fleet="e" * 64), "other_fleet"),
    ):
        told = trouble(scene.link(key), callee)
        assert told.code == code and not isinstance(told, TryLater)
    assert scene.knocks == 0


def test_another_issuer_or_another_name_is_another_node(scene: Scene) -> None:
    """A1: the pin decides, and the name within it."""
    for callee in (
        replace(scene.callee, issuer=other_issuer()),
        replace(scene.callee, name="w2.nodes.svc.lab.test"),
    ):
        assert isinstance(trouble(scene.link(HUB), callee), WrongNode)
    assert scene.knocks == 0


def test_nobody_there_and_nonsense_for_an_address(scene: Scene) -> None:
    gone = trouble(scene.link(HUB), replace(scene.callee, address=f"{HOST}:1"))
    assert isinstance(gone, Unreachable) and not isinstance(gone, WrongNode)
    assert isinstance(trouble(scene.link(HUB), replace(scene.callee, address="a b")), Invalid)


# ---- over HTTPS alone


def impostors() -> Iterator[tuple[str, bytes, ssl.SSLContext]]:
    """What the hub pins, and what somebody shows who must hear nothing."""
    now_s = time.time()
    key = issuing.make_key()
    ours = issuing.make_issuer(key, "w1", WANTED, now_s - 200 * DAY_S)
    pinned = x509.der_of(ours)
    theirs = issuing.make_key()
    made = issuing.issue(issuing.make_issuer(theirs, "w1", WANTED, now_s), theirs, [NAME], now_s)
    yield "right name, another issuer", pinned, server_context(made.chain, made.private)
    yield "a key of its own", pinned, THEIRS.context((NAME,))
    expired = issuing.issue(ours, key, [NAME], now_s - 91 * DAY_S)
    yield "expired", pinned, server_context(expired.chain, expired.private)
    early = issuing.issue(ours, key, [NAME], now_s + 2 * DAY_S)
    yield "not yet valid", pinned, server_context(early.chain, early.private)
    service = issuing.issue(ours, key, ["shop.svc.lab.test"], now_s)
    yield "a service of that node", pinned, server_context(service.chain, service.private)
    good = issuing.issue(ours, key, [NAME], now_s)
    old = server_context(good.chain, good.private)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    yield "TLS 1.2", pinned, old


CASES = list(impostors())


@pytest.mark.parametrize(("pinned", "context"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_impostor_hears_no_byte(pinned: bytes, context: ssl.SSLContext) -> None:
    """S01, A1"""
    with Eavesdropper(context) as ear:
        callee = Callee("w1", f"{HOST}:{ear.port}", NODE.line, pinned, NAME, FLEET)
        assert isinstance(trouble(HttpAgentLink(HUB, SystemClock(), SystemRandom()), callee), Unreachable)
        ear.settle()
    assert bytes(ear.heard) == b"" and ear.callers == 1


class Odd:
    """The pinned node itself, with strange answers."""

    def __init__(self, answer: bytes, pause_s: float = 0.0) -> None:
        key = issuing.make_key()
        above = issuing.make_issuer(key, "w1", WANTED, time.time())
        made = issuing.issue(above, key, [NAME], time.time())
        self._context = server_context(made.chain, made.private)
        self._answer, self._pause_s = answer, pause_s
        self._issuer = x509.der_of(above)
        self.asked = 0

    def trouble(self) -> HoldfastError:
        async def main() -> HoldfastError:
            server = await asyncio.start_server(self._visit, HOST, 0, ssl=self._context)
            port = server.sockets[0].getsockname()[1]
            callee = Callee("w1", f"{HOST}:{port}", NODE.line, self._issuer, NAME, FLEET)
            try:
                await HttpAgentLink(HUB, SystemClock(), SystemRandom()).knock(callee)
            except HoldfastError as trouble:
                return trouble
            finally:
                server.close()
            raise AssertionError("it was believed")

        return asyncio.run(main())

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(self._pause_s)
            writer.write(self._answer)
            await writer.drain()
        writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: /v1/knock\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nugh!",
        b"HTTP/1.1 503 Big\r\n\r\n" + b"x" * 1_000_000,
        b"\x00\x01nonsense\r\n\r\n",
        b"",
    ],
)
def test_strange_answers_are_no_sign_of_life(answer: bytes) -> None:
    """Redirects are never followed, and nothing is asked twice."""
    odd = Odd(answer)
    assert isinstance(odd.trouble(), Unreachable)
    assert odd.asked == 1


def test_five_seconds_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-55: one that shakes hands and says nothing, and one that does not even shake hands."""
    assert over_http.CALL_S == 5.0
    monkeypatch.setattr(over_http, "CALL_S", 0.5)
    watch = Stopwatch()
    assert "longer than" in Odd(b"late", pause_s=30).trouble().message
    with socket.create_server((HOST, 0)) as mute:
        callee = Callee("w1", f"{HOST}:{mute.getsockname()[1]}", NODE.line, other_issuer(), NAME, FLEET)
        assert "longer than" in trouble(HttpAgentLink(HUB, SystemClock(), SystemRandom()), callee).message
    assert watch.within(4)


def test_an_issuer_that_is_no_certificate_is_said() -> None:
    callee = Callee("w1", f"{HOST}:1", NODE.line, b"no certificate", NAME, FLEET)
    assert trouble(HttpAgentLink(HUB, SystemClock(), SystemRandom()), callee).code == "certificate_unreadable"
