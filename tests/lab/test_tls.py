"""S01: the hub as a real process and a node's listener speak TLS 1.3 and nothing else; nobody talks to an impostor."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.certificates import x509
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.fleet_link.http import HttpFleetLink
from holdfast.adapters.http_server import node as listening
from holdfast.adapters.http_server.node import NodeServer
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.nonces.memory import MemoryNonces
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.tls.server import IssuedTls
from holdfast.agent.local_api.api import Holding, LocalApi, NodeStatus
from holdfast.errors import TryLater
from holdfast.model import ssh_key
from holdfast.model.certificate import Issued
from holdfast.model.checkin import CheckIn
from holdfast.model.fleet import Settings
from holdfast.model.trust import Trust
from holdfast.trust import certificates as rules
from holdfast.wire import http_signature
from tests.fleets.need_net import Nothing
from tests.fleets.tls_peers import HOST, THEIRS, Eavesdropper, HubKey, impostors
from tests.fleets.waiting import PATIENCE_S, Stopwatch
from tests.lab.product import Place, new_place

pytestmark = pytest.mark.lab

SSLYZE = Path(__file__).parents[2] / "build" / "sslyze" / "bin" / "python"
NODE = MemoryIdentityKey(b"n" * 32)
STRANGER = MemoryIdentityKey(b"x" * 32)
HUB = MemoryIdentityKey(b"h" * 32)
SETTINGS = Settings("lab", internal_zone="svc.lab.test", public_domains=("example.test",))
NAME = rules.listener_name("w1", ("worker",), SETTINGS)
FLEET = "f" * 64
_marks = iter(range(1, 1_000_000))


class Door(Struct, frozen=True):
    """Somebody of ours who listens: where, under which name, with which key, for which fleet."""

    port: int
    key: str
    fleet: str
    target: str  # one that needs an identity


# ---- the hub, a process


class HubProcess(Struct, frozen=True):
    place: Place
    door: Door
    identity: HubKey
    ledger: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"HOLDFAST_HUB_KEY": self.identity.line}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    place = new_place(tmp_path_factory.mktemp("tls") / "home")
    place.run("apply", "--yes").ok()
    words = place.command("hub", "run", "--state-dir", str(place.ledger), "--listen", f"{HOST}:0")
    process = subprocess.Popen(
        words, cwd=place.fleet, env=place.environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        port, key = 0, ""
        while not (port and key):
            line = process.stderr.readline()
            assert line, "the hub ended before it was ready"
            if found := re.search(r"serving on https://127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
            if found := re.search(r"hub key: (ssh-ed25519 \S+)", line):
                key = found[1]
        threading.Thread(target=process.stderr.read, daemon=True).start()
        private = x509.private_key((place.ledger / "hub.key").read_bytes())
        assert isinstance(private, Ed25519PrivateKey)
        fleet = json.loads(place.run("status", "--json").ok().out).get("fleet", "")
        door = Door(port, key, fleet, "/v1/status")
        yield HubProcess(place, door, HubKey(private), place.ledger)
    finally:
        process.terminate()
        process.wait(60)


# ---- a node's listener, in a thread


class Node:
    def status(self) -> NodeStatus:
        return NodeStatus("w1", "0", "healthy", "idle", 1.0, time.time())

    def manifest(self) -> bytes | None:
        return None

    def holdings(self) -> tuple[Holding, ...]:
        return ()

    def knock(self) -> None:
        """Nothing depends on it here."""

    def hub_key(self) -> str:
        return HUB.line

    def fleet(self) -> str:
        return FLEET

    def node_of(self, line: str) -> str:
        return ""

    def trust(self) -> Trust | None:
        return None


class Listening:
    """A listener of its own on its own loop; `at_s` shifts what it believes the time is for its certificates."""

    def __init__(self, state: Path) -> None:
        self.certificates = X509Certificates(str(state), PosixDisk())
        self.wanted = rules.constraints("w1", ("worker",), SETTINGS)
        self.issuer = self.certificates.issuer("w1", self.wanted, time.time())
        self.shift_s = 0.0
        clock = SystemClock()
        self.audit = MemoryAuditLog(clock)
        api = LocalApi(Node(), Nothing(), NODE, MemoryNonces(clock), self.audit, clock)
        self.listener = NodeServer(api, self.serving, IssuedTls(), HOST, 0)
        self.loop = asyncio.new_event_loop()
        self.port = 0

    def serving(self) -> Issued:
        return self.certificates.serving((NAME,), time.time() + self.shift_s)

    def refresh(self) -> None:
        asyncio.run_coroutine_threadsafe(self._refresh(), self.loop).result(60)

    async def _refresh(self) -> None:
        self.listener.refresh()


@contextmanager
def a_listener(state: Path) -> Iterator[Listening]:
    mine = Listening(state)
    ready = threading.Event()
    task: list[asyncio.Task[None]] = []

    def hear(port: int) -> None:
        mine.port = port
        ready.set()

    async def live() -> None:
        task.append(asyncio.ensure_future(mine.listener.run(hear)))
        with suppress(asyncio.CancelledError):
            await task[0]

    thread = threading.Thread(target=lambda: mine.loop.run_until_complete(live()))
    thread.start()
    try:
        assert ready.wait(60)
        yield mine
    finally:
        mine.loop.call_soon_threadsafe(task[0].cancel)
        thread.join(60)
        mine.loop.close()
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    with a_listener(tmp_path_factory.mktemp("agent") / "state") as mine:
        yield mine


@pytest.fixture(params=["hub", "node"])
def door(request: pytest.FixtureRequest) -> Door:
    if request.param == "hub":
        found = request.getfixturevalue("hub").door
        assert isinstance(found, Door)
        return found
    return Door(request.getfixturevalue("node").port, NODE.line, FLEET, "/v1/status")


# ---- asking


def careless(low: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, high: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A client that takes every certificate and every cipher ever thought of."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = low
    context.maximum_version = high or low
    return context


def exchange(port: int, sent: bytes, context: ssl.SSLContext | None) -> bytes:
    """Everything that comes back, until the other side closes or has answered once."""
    read = b""
    with socket.create_connection((HOST, port), 10) as line:
        inside = context.wrap_socket(line) if context is not None else line
        inside.sendall(sent)
        with suppress(OSError):
            while b"\r\n\r\n" not in read and (piece := inside.recv(65536)):
                read += piece
    return read


def status_of(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    assert found, answer[:80]
    return int(found[1])


def plain(door: Door, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"GET {door.target} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in (headers or {}).items()), "", ""]
    return "\r\n".join(lines).encode()


def signed(door: Door, key: MemoryIdentityKey, fleet: str | None = None) -> bytes:
    nonce = f"{next(_marks):021d}A=="
    to = ssh_key.fingerprint(ssh_key.parse(door.key))
    told = door.fleet if fleet is None else fleet
    return plain(door, http_signature.sign(key, "GET", door.target, None, told, to, int(time.time()), nonce))


# ---- only TLS 1.3


def test_a_scanner_finds_tls_13_and_no_weakness(door: Door, tmp_path: Path) -> None:
    """S01: sslyze sees the three suites of TLS 1.3, no early data, no compression, no renegotiation."""
    found = tmp_path / "scan.json"
    versions = ["--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3"]
    asks = [*versions, "--heartbleed", "--reneg", "--compression", "--early_data"]
    words = [str(SSLYZE), "-m", "sslyze", f"--json_out={found}", *asks, f"{HOST}:{door.port}"]
    subprocess.run(words, check=True, capture_output=True, timeout=240)
    (scan,) = json.loads(found.read_text())["server_scan_results"]
    results: dict[str, Any] = {name: part["result"] for name, part in scan["scan_result"].items() if part["result"]}
    for old in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1", "tls_1_2"):
        assert results[f"{old}_cipher_suites"]["accepted_cipher_suites"] == [], old
    suites = {one["cipher_suite"]["name"] for one in results["tls_1_3_cipher_suites"]["accepted_cipher_suites"]}
    assert suites == {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
    assert results["tls_1_3_early_data"]["supports_early_data"] is False
    assert results["tls_compression"]["supports_compression"] is False
    assert results["heartbleed"]["is_vulnerable_to_heartbleed"] is False
    assert results["session_renegotiation"]["is_vulnerable_to_client_renegotiation_dos"] is False


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1", "TLSv1_2"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_tls_does_not_get_through_the_handshake(door: Door, version: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        exchange(door.port, plain(door), careless(getattr(ssl.TLSVersion, version)))


def test_plaintext_is_not_answered(door: Door) -> None:
    assert b"HTTP/" not in exchange(door.port, plain(door), None)


# ---- only whom it knows


def test_who_proves_nothing_learns_nothing(door: Door) -> None:
    answer = exchange(door.port, plain(door), careless())
    assert status_of(answer) == 401


def test_a_strangers_key_and_a_key_of_another_fleet_are_refused(door: Door) -> None:
    """A hub lets an unknown key try to join and nothing else (403); a node has no use for it at all (401)."""
    assert status_of(exchange(door.port, signed(door, STRANGER), careless())) in (401, 403)
    assert status_of(exchange(door.port, signed(door, STRANGER, fleet="e" * 64), careless())) == 401


def test_the_hubs_own_key_is_answered_by_a_node_which_shows_that_the_refusals_were_refusals(node: Listening) -> None:
    there = Door(node.port, NODE.line, FLEET, "/v1/status")
    assert status_of(exchange(node.port, signed(there, HUB), careless())) == 200
    assert status_of(exchange(node.port, signed(there, HUB, fleet="e" * 64), careless())) == 401


# ---- a client meets an impostor


def agent_calls(port: int, key: str) -> None:
    """One check-in of a real agent's link; raises what the agent would see."""

    async def work() -> None:
        link = HttpFleetLink(f"https://{HOST}:{port}", key, NODE, lambda: FLEET, SystemClock(), SystemRandom())
        try:
            await link.check_in(CheckIn("w1"))
        finally:
            await link.close()

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize("impostor", list(impostors()))
def test_an_agent_says_nothing_to_an_impostor(hub: HubProcess, impostor: str) -> None:
    """S01, A1: 0 application bytes to whoever is not the pinned hub, in its time, under the dialled name."""
    with Eavesdropper(impostors(hub.identity)[impostor]) as ear:
        with pytest.raises(TryLater):
            agent_calls(ear.port, hub.identity.line)
        ear.settle()
        assert bytes(ear.heard) == b""


@pytest.mark.parametrize("impostor", list(impostors()))
def test_the_command_line_says_nothing_to_an_impostor(hub: HubProcess, impostor: str) -> None:
    with Eavesdropper(impostors(hub.identity)[impostor]) as ear:
        url = f"https://{HOST}:{ear.port}"
        found = hub.place.run("status", "--json", "--hub", url, env=hub.environ)
        assert found.code in (6, 7) and "Traceback" not in found.err, found
        assert found.error["remedy"]
        ear.settle()
        assert bytes(ear.heard) == b""


def test_without_a_pin_a_self_made_certificate_is_not_trusted(hub: HubProcess) -> None:
    """The system's authorities do not know it, and there is no switch that says never mind."""
    with Eavesdropper(THEIRS.context()) as ear:
        found = hub.place.run("status", "--json", "--hub", f"https://{HOST}:{ear.port}")
        assert found.code in (6, 7), found
        ear.settle()
        assert bytes(ear.heard) == b""


def test_a_proxy_in_the_middle_with_its_own_certificate_gets_nothing_to_pass_on(hub: HubProcess) -> None:
    """It does pass on what a careless client says, so it would have been heard."""
    with Eavesdropper(THEIRS.context(), beyond=(HOST, hub.door.port)) as middle:
        assert status_of(exchange(middle.port, plain(hub.door), careless())) == 401
        spoken = len(middle.heard)
        assert spoken > 0
        with pytest.raises(TryLater):
            agent_calls(middle.port, hub.identity.line)
        found = hub.place.run("status", "--json", "--hub", f"https://{HOST}:{middle.port}", env=hub.environ)
        assert found.code in (6, 7), found
        middle.settle(3)
        assert len(middle.heard) == spoken


def test_the_true_hub_is_believed(hub: HubProcess) -> None:
    """The refusals above come from the checks: the same calls reach the real hub."""
    url = f"https://{HOST}:{hub.door.port}"
    hub.place.run("status", "--json", "--hub", url, env=hub.environ).ok()
    try:
        agent_calls(hub.door.port, hub.identity.line)
    except Exception as trouble:
        assert getattr(trouble, "code", "") not in ("wrong_hub", "unavailable"), trouble


def test_the_hubs_private_key_is_for_its_owner_alone(hub: HubProcess) -> None:
    for name in ("hub.key", "hub.crt"):
        assert (hub.ledger / name).stat().st_mode & 0o077 == 0, name
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    copy = hub.identity.private.private_bytes(*form).splitlines()[1]
    for path in hub.ledger.rglob("*"):
        assert copy not in path.read_bytes(), f"{path} holds the key in another form"


# ---- a node's certificate


def shown_by(port: int) -> bytes:
    with socket.create_connection((HOST, port), 10) as line, careless().wrap_socket(line) as inside:
        return inside.getpeercert(binary_form=True) or b""


def test_an_ordinary_client_with_the_bundle_verifies_a_node_by_its_name(node: Listening) -> None:
    context = ssl.create_default_context(cadata=x509.pem_of(node.issuer))
    with socket.create_connection((HOST, node.port), 10) as line, context.wrap_socket(line, server_hostname=NAME) as up:
        assert up.version() == "TLSv1.3"
    with socket.create_connection((HOST, node.port), 10) as line, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(line, server_hostname="www.example.test")


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    """Renewal at a third of its life; who is connected stays connected."""
    with a_listener(tmp_path / "state") as mine:
        first = shown_by(mine.port)
        with socket.create_connection((HOST, mine.port), 10) as line, careless().wrap_socket(line) as kept:
            mine.refresh()
            assert shown_by(mine.port) == first, "not due yet"
            mine.shift_s = 61 * 86_400.0
            mine.refresh()
            second = shown_by(mine.port)
            assert second != first and x509.pin(second) == mine.listener.shown
            kept.sendall(plain(Door(mine.port, NODE.line, FLEET, "/v1/status")))
            assert status_of(kept.recv(65536)) == 401


# ---- what strangers may cost a node


def test_a_silent_caller_is_shown_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before authentication: a clock over the handshake and one over the visit, so places come free again."""
    monkeypatch.setattr(listening, "HANDSHAKE_S", 0.3)
    monkeypatch.setattr(listening, "VISIT_S", 0.3)
    with a_listener(tmp_path / "state") as mine:
        with socket.create_connection((HOST, mine.port), PATIENCE_S) as mute:
            watch = Stopwatch()
            assert mute.recv(1) == b"" and watch.within(3)
        monkeypatch.setattr(listening, "HANDSHAKE_S", PATIENCE_S)  # ours takes longer on a busy machine
        assert _ended(mine.port, b"GET /v1/status HTTP/1.1\r\nHost: x\r\n")


def test_even_a_known_caller_has_no_more_time_for_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "VISIT_S", 0.3)
    with a_listener(tmp_path / "state") as mine:
        to, nonce = ssh_key.fingerprint(ssh_key.parse(NODE.line)), f"{next(_marks):021d}A=="
        proof = http_signature.sign(HUB, "POST", "/v1/knock", b"x" * 99, FLEET, to, int(time.time()), nonce)
        fields = "".join(f"{name}: {value}\r\n" for name, value in proof.items())
        assert _ended(mine.port, f"POST /v1/knock HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n{fields}\r\n".encode())


def _ended(port: int, sent: bytes) -> bool:
    """The node hangs up within three seconds, though we would go on."""
    with socket.create_connection((HOST, port), PATIENCE_S) as line, careless().wrap_socket(line) as inside:
        watch = Stopwatch()
        try:
            inside.sendall(sent)
            while inside.recv(65536):
                continue
        except TimeoutError:
            return False
        except OSError:
            return watch.within(3)
        return watch.within(3)


def test_too_many_callers_are_turned_away_and_places_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(listening, "HANDSHAKE_S", 20.0)
    with a_listener(tmp_path / "state") as mine:
        there = Door(mine.port, NODE.line, FLEET, "/v1/status")
        mute = [socket.create_connection((HOST, mine.port), 10) for _ in range(4)]
        with socket.create_connection((HOST, mine.port), 10) as fifth:
            assert fifth.recv(1) == b"", "it would be waited for, if it had a place"
        for line in mute:
            line.close()
        assert _within(60, lambda: status_of(exchange(mine.port, signed(there, HUB), careless())) == 200)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/status HTTP/1.1\r\n" + b"A: b\r\n" * 100 + b"\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"POST /v1/knock HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/knock HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
    ],
)
def test_malformed_requests_are_refused_and_never_a_server_error(node: Listening, sent: bytes) -> None:
    """S03's rule for a node: 4xx or a closed door, never a 5xx."""
    answer = exchange(node.port, sent, careless())
    assert not answer or 400 <= status_of(answer) < 500


def _within(patience_s: float, true: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        with suppress(OSError, AssertionError):
            if true():
                return True
        time.sleep(0.02)
    return False
