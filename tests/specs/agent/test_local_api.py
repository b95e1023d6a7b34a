"""What a node answers about itself: the hub and operators within a closed list, nobody else (M-113, F-04)."""

import asyncio
from collections.abc import Mapping
from itertools import count

import msgspec
import pytest

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.nonces.memory import MemoryNonces
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.agent.link.audit_folding import LINES_PER_MINUTE
from holdfast.agent.local_api import api
from holdfast.agent.local_api.api import (
    ALLOWED,
    ROUTES,
    Holding,
    LocalApi,
    NodeStatus,
)
from holdfast.model import canonical, ssh_key
from holdfast.model.audit import AuditEntry
from holdfast.model.principal import Kind
from holdfast.model.revision import Head
from holdfast.model.session import NAMESPACE, SessionCertificate, SessionGrant
from holdfast.model.trust import Trust
from holdfast.ports.http_server import Request, Response
from holdfast.wire import http_signature, session_header
from tests.fleets.build import ALICE, ALICE_SIGNER, START_S, operator_signer, small_fleet

FLEET = "f" * 64
KEY = MemoryIdentityKey(b"n" * 32)
HUB = MemoryIdentityKey(b"h" * 32)
SESSION = MemoryIdentityKey(b"s" * 32)
STRANGER = MemoryIdentityKey(b"x" * 32)
PEER = MemoryIdentityKey(b"p" * 32)  # of a node with a need here
MANIFEST = b'{"fleet":"f","node":"w1"}'
HEAD = Head(4, "4" * 64)
_nonces = count(1)


class Node:
    def __init__(self, trust: Trust | None) -> None:
        self.knocks = 0
        self.held: tuple[Holding, ...] = (Holding("db-1", "w2", "shop"),)
        self.content: bytes | None = MANIFEST
        self._trust = trust

    def status(self) -> NodeStatus:
        return NodeStatus("w1", "0", "healthy", "idle", 5.0, START_S, HEAD, canonical.digest(MANIFEST))

    def manifest(self) -> bytes | None:
        return self.content

    def holdings(self) -> tuple[Holding, ...]:
        return self.held

    def knock(self) -> None:
        self.knocks += 1

    def hub_key(self) -> str:
        return HUB.line

    def fleet(self) -> str:
        return FLEET

    def node_of(self, line: str) -> str:
        return "w7" if line == PEER.line else ""

    def trust(self) -> Trust | None:
        return self._trust


def trusted() -> Trust:
    fleet = small_fleet()
    return Trust(fleet.operators, fleet.thresholds)


def certificate(signer: MemorySigner = ALICE_SIGNER, fleet: str = FLEET, session: str = SESSION.line) -> str:
    grant = canonical.encode(
        SessionGrant(fleet, ssh_key.line(signer.public_key), session, int(START_S) - 10, int(START_S) + 3600)
    )
    return session_header.write(SessionCertificate(grant, signer.sign(grant, NAMESPACE)))


class Gives:
    """What the node gives to others, and who asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def granted(self, node: str, type: str, body: bytes) -> bytes:
        self.asked.append((node, type))
        return b"{}"

    async def told(self, node: str, body: bytes) -> bytes:
        self.asked.append((node,))
        return b"{}"


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock(START_S)
        self.node = Node(trusted())
        self.audit = MemoryAuditLog(self.clock)
        self.nonces = MemoryNonces(self.clock)
        self.gives = Gives()
        self.api = LocalApi(self.node, self.gives, KEY, self.nonces, self.audit, self.clock)
        self.bodies_read = 0

    def ask(self, asked: Request, body: bytes = b"") -> Response:
        async def read() -> bytes:
            self.bodies_read += 1
            return body

        return asyncio.run(self.api.answer(asked, read))

    def denials(self) -> list[AuditEntry]:
        return [msgspec.json.decode(line, type=AuditEntry) for line in self.audit.lines()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def signed(
    key: MemoryIdentityKey,
    method: str = "GET",
    target: str = "/v1/status",
    body: bytes | None = None,
    at_s: float = START_S,
    to: str = KEY.line,
    fleet: str = FLEET,
    extra: Mapping[str, str] | None = None,
) -> Request:
    nonce = f"{next(_nonces):021d}A=="  # any 16 bytes that differ
    fingerprint = ssh_key.fingerprint(ssh_key.parse(to))
    headers = http_signature.sign(key, method, target, body, fleet, fingerprint, int(at_s), nonce)
    return Request(method, target, {**headers, **(extra or {})}, "192.0.2.9")


def by(kind: Kind, method: str, target: str) -> Request:
    match kind:
        case "hub":
            return signed(HUB, method, target)
        case "operator":
            return signed(SESSION, method, target, extra={session_header.HEADER: certificate()})
        case "anonymous":
            return Request(method, target, {}, "192.0.2.9")
        case "node":
            return signed(PEER, method, target)
        case _:
            return signed(STRANGER, method, target)


@pytest.mark.parametrize("kind", ["hub", "operator", "anonymous", "node", "guest"])
@pytest.mark.parametrize("route", list(ROUTES), ids=" ".join)
def test_everybody_gets_exactly_what_the_table_says(bench: Bench, kind: Kind, route: tuple[str, str]) -> None:
    """I-13, M-113, C-12: a node without a need here is a stranger; one with a need sees nothing else."""
    answer = bench.ask(by(kind, *route))
    allowed = kind in ALLOWED[ROUTES[route]]
    refused = {"hub": 403, "operator": 403, "node": 404}.get(kind, 401)
    assert answer.status == (200 if allowed else refused), answer
    assert len(bench.denials()) == (0 if allowed else 1)
    assert bench.node.knocks == (1 if allowed and route[1] == "/v1/knock" else 0)
    assert bench.bodies_read == (1 if allowed else 0), "a body is read for those who may ask, and for nobody else"


def test_a_node_is_named_by_its_key_and_not_by_what_it_sends(bench: Bench) -> None:
    """I-12."""
    assert bench.ask(signed(PEER, "POST", "/v1/capabilities/postgres", b"{}"), b"{}").status == 200
    assert bench.gives.asked == [("w7", "postgres")]


def test_every_route_has_its_row() -> None:
    assert set(ROUTES.values()) == set(ALLOWED)


def test_the_answers_are_the_nodes_own(bench: Bench) -> None:
    """F-04."""
    said = msgspec.json.decode(bench.ask(by("operator", "GET", "/v1/status")).body)
    assert (said["node"], said["health"], said["uptime_s"], said["accepted"]["number"]) == ("w1", "healthy", 5.0, 4)
    held = bench.ask(by("operator", "GET", "/v1/holdings")).body
    assert msgspec.json.decode(held) == {"holdings": [{"handle": "db-1", "provider": "w2", "service": "shop"}]}
    bench.node.held = ()
    assert msgspec.json.decode(bench.ask(by("operator", "GET", "/v1/holdings")).body) == {"holdings": []}
    manifest = bench.ask(by("operator", "GET", "/v1/manifest")).body
    assert MANIFEST in manifest and canonical.digest(MANIFEST).encode() in manifest


def test_without_a_manifest_there_is_none(bench: Bench) -> None:
    bench.node.content = None
    assert bench.ask(by("operator", "GET", "/v1/manifest")).status == 404


@pytest.mark.parametrize(("method", "target", "status"), [("GET", "/v1/exec", 404), ("DELETE", "/v1/status", 405)])
def test_what_is_not_in_the_list_is_not_there(bench: Bench, method: str, target: str, status: int) -> None:
    assert bench.ask(by("hub", method, target)).status == status
    assert bench.ask(by("anonymous", method, target)).status == 401, "strangers do not even learn that"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (signed(HUB, to=STRANGER.line), "other_recipient"),
        (signed(HUB, fleet="e" * 64), "other_fleet"),
        (signed(HUB, fleet=""), "other_fleet"),
        (signed(STRANGER), "unknown_key"),
        (signed(SESSION), "unknown_key"),
        (signed(STRANGER, extra={session_header.HEADER: certificate()}), "session_refused"),
        (
            signed(SESSION, extra={session_header.HEADER: certificate(operator_signer("mallory")[1])}),
            "unknown_operator",
        ),
        (signed(SESSION, extra={session_header.HEADER: certificate(fleet="e" * 64)}), "other_fleet"),
        (signed(SESSION, extra={session_header.HEADER: "junk"}), "session_refused"),
    ],
)
def test_a_credential_of_elsewhere_is_worth_nothing_here(bench: Bench, asked: Request, code: str) -> None:
    """S01, S08: captured for another host, another fleet's key, another's session."""
    answer = bench.ask(asked)
    assert (answer.status, msgspec.json.decode(answer.body)["code"]) == (401, code)
    assert [entry.event.result for entry in bench.denials()] == ["denied"]
    assert bench.denials()[0].event.source == "192.0.2.9"


def test_a_request_is_answered_once(bench: Bench) -> None:
    asked = by("hub", "POST", "/v1/knock")
    assert bench.ask(asked).status == 200
    replay = bench.ask(asked)
    assert (replay.status, msgspec.json.decode(replay.body)["code"]) == (401, "replayed")
    assert bench.node.knocks == 1


@pytest.mark.parametrize("changed", ["method", "target", "body"])
def test_what_was_changed_on_the_way_is_refused(bench: Bench, changed: str) -> None:
    asked = signed(HUB, "POST", "/v1/knock", b"{}")
    method = "GET" if changed == "method" else asked.method
    target = "/v1/status" if changed == "target" else asked.target
    answer = bench.ask(Request(method, target, asked.headers, asked.source), b"[]" if changed == "body" else b"{}")
    assert answer.status == 401
    assert bench.node.knocks == 0


@pytest.mark.parametrize(("off_s", "status"), [(-61, 401), (-60, 200), (60, 200), (61, 401)])
def test_clocks_may_differ_by_a_minute_and_who_is_off_is_told_the_time(bench: Bench, off_s: int, status: int) -> None:
    asked = signed(HUB, at_s=START_S + off_s)
    answer = bench.ask(asked)
    assert answer.status == status
    if status == 401:
        nonce = http_signature.read(asked.method, asked.target, asked.headers).nonce
        assert http_signature.verify_response(401, answer.headers, KEY.line, nonce) == int(START_S)


def test_an_operator_who_left_the_trust_is_refused_at_once(bench: Bench) -> None:
    assert bench.ask(by("operator", "GET", "/v1/status")).status == 200
    other, _ = operator_signer("bob")
    bench.node._trust = msgspec.structs.replace(trusted(), operators=(other,))
    assert bench.ask(by("operator", "GET", "/v1/status")).status == 401


def test_before_the_first_revision_nobody_is_an_operator(bench: Bench) -> None:
    bench.node._trust = None
    assert bench.ask(by("operator", "GET", "/v1/status")).status == 401
    assert ALICE.name == "alice"


def test_asking_too_often_is_limited_and_says_until_when(bench: Bench) -> None:
    for _ in range(api.REQUESTS_PER_MINUTE):
        assert bench.ask(by("hub", "GET", "/v1/status")).status == 200
    answer = bench.ask(by("hub", "GET", "/v1/status"))
    assert answer.status == 429 and 1 <= int(answer.headers["Retry-After"]) <= 60
    assert bench.ask(by("operator", "GET", "/v1/status")).status == 200, "others are not"
    bench.clock.advance(59)
    assert bench.ask(signed(HUB, at_s=START_S + 59)).status == 429
    bench.clock.advance(1)
    assert bench.ask(signed(HUB, at_s=START_S + 60)).status == 200


def test_a_flood_of_refusals_is_counted_not_written_one_by_one(bench: Bench) -> None:
    for _ in range(LINES_PER_MINUTE + 250):
        bench.ask(by("anonymous", "GET", "/v1/status"))
    assert len(bench.denials()) == LINES_PER_MINUTE
    bench.clock.advance(60)
    bench.ask(by("anonymous", "GET", "/v1/status"))
    folded, last = bench.denials()[-2:]
    assert (folded.event.count, folded.event.source, last.event.count) == (250, "192.0.2.9", 1)
    assert sum(entry.event.count for entry in bench.denials()) == LINES_PER_MINUTE + 251


def test_what_was_only_counted_is_written_at_the_end(bench: Bench) -> None:
    for _ in range(LINES_PER_MINUTE + 1):
        bench.ask(by("anonymous", "GET", "/v1/status"))
    bench.api.close()
    assert len(bench.denials()) == LINES_PER_MINUTE + 1
