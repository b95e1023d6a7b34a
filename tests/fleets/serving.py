"""A hub served over TLS in a thread of this process, callers of every kind, and raw requests to it."""

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.hub_link.http.hub import HttpHub
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.nonces.memory import MemoryNonces
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.adapters.tls import client
from holdfast.adapters.tls.hub import HubTls
from holdfast.errors import Unauthenticated
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.http.limiter import Rate, Rates
from holdfast.hub.http.tokens import Tokens
from holdfast.hub.ledger.legacy import LegacySource
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import canonical, ssh_key
from holdfast.model.audit import AuditEntry, Event
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.checkin import CheckIn, JoinRequest
from holdfast.model.fleet import Role
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    JOIN_NAMESPACE,
    REVOKE_NAMESPACE,
    Enrolment,
    Invite,
    Joining,
    Revocation,
    SignedInvite,
    SignedRevocation,
)
from holdfast.model.principal import Principal
from holdfast.model.session import NAMESPACE, SessionCertificate, SessionGrant
from holdfast.ports.hub_link import HubLink
from holdfast.ports.ledger_store import LedgerStore
from holdfast.ports.nonces import Nonces
from holdfast.ports.sessions import Session
from holdfast.trust import own_signature
from holdfast.wire import codec, http_signature, session_header
from holdfast.wiring import hub as wiring
from holdfast.wiring import hub_http
from holdfast.wiring.hub_http import Parts
from tests.fleets.build import ALICE_SIGNER

HOST = "127.0.0.1"
_OFTEN = Rate(0.0001, 1_000_000)
GENEROUS = Rates(Rate(0.0001, 1_000_000), _OFTEN, _OFTEN, _OFTEN, _OFTEN, _OFTEN)  # for tests of something else


def key_of(name: str) -> MemoryIdentityKey:
    """The same name always has the same key."""
    return MemoryIdentityKey(sha256(f"key of {name}".encode()).digest())


def nonce() -> str:
    import base64

    return base64.b64encode(SystemRandom().token(http_signature.NONCE_BYTES)).decode()


# ---- callers


class Caller:
    """Proves nothing."""

    def headers(self, hub: "Served", method: str, target: str, body: bytes | None) -> dict[str, str]:
        return {}


class Machine(Caller):
    """Signs with a key of its own, as a node does. `skew_s` is how wrong its clock is."""

    def __init__(self, name: str, skew_s: int = 0) -> None:
        self.key = key_of(name)
        self.skew_s = skew_s

    def headers(self, hub: "Served", method: str, target: str, body: bytes | None) -> dict[str, str]:
        created_s = int(time.time()) + self.skew_s
        return http_signature.sign(self.key, method, target, body, hub.fleet_id, hub.fingerprint, created_s, nonce())


class Person(Machine):
    """Signs with a session that an operator's key certified; is a `Sessions` of the command line, too."""

    def __init__(self, name: str, signer: MemorySigner, skew_s: int = 0, lasts_s: int = 3600, began_s: int = 0) -> None:
        super().__init__(f"session of {name}", skew_s)
        self.signer = signer
        self._lasts_s, self._began_s = lasts_s, began_s
        self._certificates: dict[str, SessionCertificate] = {}

    def certificate(self, fleet: str) -> SessionCertificate:
        if fleet not in self._certificates:
            now_s = int(time.time()) + self._began_s
            operator = ssh_key.line(self.signer.public_key)
            grant = canonical.encode(SessionGrant(fleet, operator, self.key.line, now_s, now_s + self._lasts_s))
            self._certificates[fleet] = SessionCertificate(grant, self.signer.sign(grant, NAMESPACE))
        return self._certificates[fleet]

    def headers(self, hub: "Served", method: str, target: str, body: bytes | None) -> dict[str, str]:
        certificate = self.certificate(hub.fleet_id)
        return super().headers(hub, method, target, body) | {session_header.HEADER: session_header.write(certificate)}

    def session(self, fleet: str) -> Session:
        return Session(self.key, self.certificate(fleet))

    def forget(self, fleet: str) -> None:
        self._certificates.pop(fleet, None)


class Holder(Caller):
    """Has a token."""

    def __init__(self, text: str) -> None:
        self.text = text

    def headers(self, hub: "Served", method: str, target: str, body: bytes | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"}


NOBODY = Caller()
ALICE = Person("alice", ALICE_SIGNER)


# ---- the hub


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


CLOSED = Reply(0, {}, b"")  # the hub hung up without a word


class Served:
    """One daemon: where it listens, what it is made of, and ways to ask it."""

    def __init__(self, parts: Parts, store: LedgerStore, host: str = HOST) -> None:
        self.parts = parts
        self.store = store
        self.host = host
        self.port = 0
        self.hub_key = parts.key.line
        self.fingerprint = ssh_key.fingerprint(ssh_key.parse(self.hub_key))
        self.tls: ssl.SSLContext = client.pinned_context(self.hub_key, host, time.time)

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    @property
    def fleet_id(self) -> str:
        applied = self.parts.hub.applied()
        return applied.fleet_id if applied is not None else ""

    def token(self, name: str = "reader", expires_in_s: int = 3600) -> Holder:
        tokens = self.parts.tokens
        return Holder(tokens.create(Principal("operator", "alice"), name, expires_in_s).text)

    def joining(
        self, name: str, roles: Sequence[Role] = ("worker",), key: str = "", replaces: bool = False
    ) -> JoinRequest:
        """What a machine with the key called `key` sends to become this node, invited by alice."""
        own, once, now_s = key_of(key or name), key_of(f"once {name} {key}"), int(time.time())
        old = key_of(name).line if replaces else ""
        invite = canonical.encode(
            Invite(self.fleet_id, nonce(), name, tuple(roles), once.line, now_s, now_s + 600, replaces, old)
        )
        joining = canonical.encode(Joining(self.fleet_id, canonical.digest(invite), name, own.line, now_s))
        signed = SignedInvite(invite, (ALICE_SIGNER.sign(invite, INVITE_NAMESPACE),))
        proofs = [own_signature.armoured(each, joining, JOIN_NAMESPACE) for each in (once, own)]
        return JoinRequest(Enrolment(signed, joining, *proofs), name, tuple(roles))

    def joined(self, name: str, roles: Sequence[Role] = ("worker",)) -> Machine:
        """A node of the applied revision that joined over HTTP."""
        machine = Machine(name)
        answer = self.signed("POST", "/v1/join", codec.write(self.joining(name, roles)), machine)
        assert answer.status == 200, answer
        return machine

    def revoked(self, name: str) -> None:
        content = canonical.encode(Revocation(self.fleet_id, name, key_of(name).line, int(time.time())))
        signed = SignedRevocation(content, (ALICE_SIGNER.sign(content, REVOKE_NAMESPACE),))
        assert self.signed("POST", "/v1/revocations", codec.write(signed)).status == 200

    def check_in(self, machine: Machine, node: str, **said: Any) -> Reply:
        return self.signed("POST", "/v1/check-in", codec.write(CheckIn(node, **said)), machine)

    def link(self, timeout_s: float = 10.0, person: Person = ALICE) -> HttpHub:
        return HttpHub(
            self.url,
            person,
            SystemClock(),
            SystemRandom(),
            pin=self.hub_key,
            fleet=self.fleet_id,
            timeout_s=timeout_s,
        )

    def signed(self, method: str, target: str, body: bytes | None = None, as_: Caller = ALICE, **more: str) -> Reply:
        return raw(self, request(self, method, target, body, as_, **more))

    def events(self) -> list[Event]:
        lines = self.parts.audit.lines(0, 1_000_000)
        return [msgspec.json.decode(line, type=AuditEntry).event for line in lines]

    def denials(self, count: int, wait_s: float = 60.0) -> list[Event]:
        """Once there are so many: they are written beside the answering."""
        deadline_s = time.monotonic() + wait_s
        while True:
            found = [event for event in self.events() if event.result == "denied"]
            if len(found) >= count or time.monotonic() > deadline_s:
                return found
            time.sleep(0.01)


def parts_of(
    hub: HubLink,
    rates: Rates = GENEROUS,
    pace: Cadence = NORMAL,
    names: Sequence[str] = (HOST, "localhost"),
    key: bytes | None = None,
    nonces: Nonces | None = None,
    backups: BackupStore | None = None,
) -> tuple[Parts, LedgerStore]:
    """What wiring chooses for a hub, over memory; `key` is the content of a hub's key file."""
    clock, random = SystemClock(), SystemRandom()
    store: LedgerStore = hub._writable if isinstance(hub, Revisions) else MemoryStore()
    audit = MemoryAuditLog(clock)
    content = key or key_file.made(random)[1]
    return Parts(
        hub,
        key_file.read(content, "hub.key"),
        HubTls(content, names, "", clock, MemoryDisk()),
        nonces or MemoryNonces(clock),
        audit,
        Tokens(store, clock, random),
        wiring.fleet(hub=hub, store=store, clock=clock, random=random, audit=audit, pace=pace),
        clock,
        rates=rates,
        declared=hub.trust if isinstance(hub, LegacySource) else None,
        backups=backups or BackupStore(MemoryObjects(), lambda key, content, node: None),
    ), store


@contextmanager
def served(hub: HubLink, rates: Rates = GENEROUS, **chosen: Any) -> Iterator[Served]:
    """A daemon that serves this hub; it has drained and ended when the block is left."""
    found = Served(*parts_of(hub, rates, **chosen))
    with running(found):
        yield found


@contextmanager
def running(hub: Served, listen: str = "") -> Iterator[None]:
    daemon = hub_http.daemon(hub.parts, listen or hub.host, 0)
    ready = threading.Event()
    trouble: list[BaseException] = []

    def hear(port: int) -> None:
        hub.port = port
        ready.set()

    def live() -> None:
        try:
            daemon.run(hear)
        except BaseException as raised:
            trouble.append(raised)
        finally:
            ready.set()

    thread = threading.Thread(target=live, name="hub")
    thread.start()
    assert ready.wait(60)
    try:
        assert hub.port, trouble
        yield
    finally:
        daemon.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert not trouble, trouble


# ---- requests


def connected(hub: Served, timeout_s: float = 10.0) -> ssl.SSLSocket:
    line = socket.create_connection((hub.host, hub.port), timeout_s)
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return hub.tls.wrap_socket(line, server_hostname=hub.host)
    except BaseException:
        line.close()
        raise


def request(
    hub: Served, method: str, target: str, body: bytes | None = None, as_: Caller = ALICE, **more: str
) -> bytes:
    said: Mapping[str, str] = {"Host": "localhost"}
    if body is not None:
        said = {**said, "Content-Type": "application/json", "Content-Length": str(len(body))}
    said = {**said, **as_.headers(hub, method, target, body), **{n.replace("_", "-"): v for n, v in more.items()}}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in said.items() if text), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


def stamped(hub: Served, sent: bytes, as_: Caller = ALICE, body: bytes | None = None) -> bytes:
    """The same bytes with the headers of a caller after the first line, as far as such a request can be signed.

    `body` is what was signed, if that is not what follows the head: chunks, or bytes that are sent later.
    """
    first, _, rest = sent.partition(b"\r\n")
    try:
        method, target, _ = first.decode("ascii").split(" ")
        content = body if body is not None else rest.partition(b"\r\n\r\n")[2] or None
        headers = as_.headers(hub, method, re.sub(r"^\w+://[^/]*", "", target), content)
    except (ValueError, Unauthenticated):
        return sent
    lines = b"".join(f"{name}: {text}\r\n".encode() for name, text in headers.items())
    return first + b"\r\n" + lines + rest


def raw(hub: Served, sent: bytes, timeout_s: float = 10.0) -> Reply:
    """Send exactly these bytes and read one answer."""
    with connected(hub, timeout_s) as line:
        with suppress(ConnectionError, ssl.SSLError):  # refused early; the reason is still there to be read
            line.sendall(sent)
        return reply(line)


def reply(line: socket.socket) -> Reply:
    read = b""
    try:
        while b"\r\n\r\n" not in read:
            piece = line.recv(65536)
            if not piece:
                return CLOSED
            read += piece
        head, _, body = read.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        while len(body) < int(headers.get("content-length", "0")) and (piece := line.recv(65536)):
            body += piece
    except (ConnectionError, ssl.SSLEOFError):
        return CLOSED
    found = re.match(r"HTTP/1\.[01] (\d{3})", lines[0])
    assert found, lines[0]
    return Reply(int(found[1]), headers, body)


def get(hub: Served, target: str, as_: Caller = ALICE) -> Reply:
    return hub.signed("GET", target, as_=as_)


def post(hub: Served, target: str, body: bytes, as_: Caller = ALICE, **more: str) -> Reply:
    return hub.signed("POST", target, body, as_, **more)
