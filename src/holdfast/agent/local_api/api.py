"""What a node answers about itself, and to whom: a closed list, deny by default. Knows no socket and no HTTP library.

The hub's own key may ask how the node is and may knock (M-113); operators of the trust this node accepted may read. Who
proves neither learns nothing, and every refusal is in the audit log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from holdfast.agent.link import audit_folding
from holdfast.errors import (
    HoldfastError,
    Invalid,
    Limited,
    NotPermitted,
    Unauthenticated,
)
from holdfast.model import ssh_key
from holdfast.model.principal import Kind, Principal
from holdfast.model.revision import NO_HEAD, Head
from holdfast.trust import sessions
from holdfast.wire import codec, faults, http_signature, session_header

if TYPE_CHECKING:
    from holdfast.model.trust import Trust
    from holdfast.ports.audit_log import AuditLog
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.nonces import Nonces

REQUESTS_PER_MINUTE = 60  # of one key
BODY_BYTES_MAX = 4096


class Holding(Struct, frozen=True):
    """A handle in use here that somebody else provides."""

    handle: str
    provider: str
    service: str


class NodeStatus(Struct, frozen=True):
    node: str
    version: str
    health: str  # healthy, degraded (M-47)
    state: str  # idle, processing
    uptime_s: float
    time_s: float
    accepted: Head = NO_HEAD
    manifest: str = ""  # digest of the manifest in force


class LocalNode(Protocol):
    """The agent, as its local interface asks it. Every answer is of this moment."""

    def status(self) -> NodeStatus: ...

    def manifest(self) -> bytes | None:
        """The exact bytes of the manifest in force; None before the first."""
        ...

    def holdings(self) -> tuple[Holding, ...]: ...

    def knock(self) -> None:
        """Check in now. Knocking twice is knocking once."""
        ...

    def hub_key(self) -> str: ...

    def fleet(self) -> str:
        """The fleet id; "" before the first revision was accepted."""
        ...

    def trust(self) -> Trust | None: ...


class Asked(Struct, frozen=True):
    method: str
    target: str
    headers: Mapping[str, str]
    source: str


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str] = {}


class ManifestAnswer(Struct, frozen=True):
    accepted: Head
    digest: str
    manifest: msgspec.Raw


class HoldingsAnswer(Struct, frozen=True):
    holdings: tuple[Holding, ...]


class KnockAnswer(Struct, frozen=True):
    heard: bool = True


# Method and path → operation → who may. What stands in neither is refused.
ROUTES: Mapping[tuple[str, str], str] = {
    ("GET", "/v1/status"): "status",
    ("GET", "/v1/manifest"): "manifest",
    ("GET", "/v1/holdings"): "holdings",
    ("POST", "/v1/knock"): "knock",
}
ALLOWED: Mapping[str, frozenset[Kind]] = {
    "status": frozenset({"hub", "operator"}),
    "manifest": frozenset({"operator"}),
    "holdings": frozenset({"operator"}),
    "knock": frozenset({"hub"}),
}


class LocalApi:
    def __init__(self, node: LocalNode, key: IdentityKey, nonces: Nonces, audit: AuditLog, clock: Clock) -> None:
        self._node = node
        self._key = key
        self._to = ssh_key.fingerprint(ssh_key.parse(key.line))
        self._nonces = nonces
        self._denials = audit_folding.denials(audit, clock)
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}

    async def answer(self, asked: Asked, body: Callable[[], Awaitable[bytes]]) -> Answer:
        """`body` reads at most BODY_BYTES_MAX and is called only for somebody who may ask."""
        extra: dict[str, str] = {}
        who = Principal("anonymous")
        try:
            parsed = http_signature.read(asked.method, asked.target, asked.headers)
            extra = self._time_told(parsed)
            who = self._principal(parsed, asked.headers)
            operation = _permitted(who, asked)
            self._limit(parsed.line)
            await self._once(parsed)
            http_signature.check_body(parsed, await body())
            return Answer(200, self._carry_out(operation))
        except HoldfastError as trouble:
            what = f"{asked.method} {asked.target}"
            audit_folding.note_denial(self._denials, str(who), what, asked.source, trouble)
            return refusal(trouble, extra)

    def close(self) -> None:
        self._denials.fold()

    # ---- who it is

    def _principal(self, parsed: http_signature.Parsed, headers: Mapping[str, str]) -> Principal:
        http_signature.check_time(parsed, self._clock.now_s())
        if parsed.to != self._to:
            raise _stranger("the request was made for another machine", "other_recipient")
        fleet = self._node.fleet()
        if parsed.fleet != (fleet or http_signature.NO_FLEET):
            raise _stranger("the request was made for another fleet", "other_fleet")
        http_signature.check_signature(parsed)
        if ssh_key.parse(parsed.line).blob == ssh_key.parse(self._node.hub_key()).blob:
            return Principal("hub", "hub", parsed.line)
        certificate = next((v for k, v in headers.items() if k.lower() == session_header.HEADER.lower()), None)
        trust = self._node.trust()
        if certificate is None or trust is None:
            raise _stranger("its key is neither the hub's nor that of an operator's session", "unknown_key")
        return sessions.verify_session(session_header.read(certificate), parsed.line, fleet, trust, self._clock.now_s())

    def _time_told(self, parsed: http_signature.Parsed) -> dict[str, str]:
        """For a caller whose clock is off: ours, signed, so that he can tell which one is wrong."""
        now_s = self._clock.now_s()
        if abs(parsed.created_s - now_s) <= http_signature.WINDOW_S:
            return {}
        return http_signature.sign_response(self._key, 401, int(now_s), parsed.nonce)

    # ---- bounds

    def _limit(self, line: str) -> None:
        """Only keys that may ask get here, so the table stays as small as the trust."""
        now_s = self._clock.monotonic_s()
        recent = self._asked.setdefault(line, deque())
        while recent and now_s - recent[0] >= 60.0:
            recent.popleft()
        if len(recent) >= REQUESTS_PER_MINUTE:
            raise Limited(
                f"more than {REQUESTS_PER_MINUTE} requests in a minute",
                remedy="ask less often",
                retry_after_s=60.0 - (now_s - recent[0]),
            )
        recent.append(now_s)

    async def _once(self, parsed: http_signature.Parsed) -> None:
        admitted = self._nonces.admit(parsed.line, parsed.nonce, parsed.replayable_until_s)
        if not await asyncio.wrap_future(admitted):
            raise _stranger("this very request was answered before", "replayed")

    # ---- what is answered

    def _carry_out(self, operation: str) -> bytes:
        match operation:
            case "status":
                return codec.write(self._node.status())
            case "manifest":
                return self._manifest()
            case "holdings":
                return codec.write(HoldingsAnswer(self._node.holdings()))
            case _:
                self._node.knock()
                return codec.write(KnockAnswer())

    def _manifest(self) -> bytes:
        content = self._node.manifest()
        if content is None:
            raise Invalid(
                "this node has accepted no revision yet", remedy="holdfast apply, then ask again", code="not_found"
            )
        status = self._node.status()
        return codec.write(ManifestAnswer(status.accepted, status.manifest, msgspec.Raw(content)))


def _permitted(who: Principal, asked: Asked) -> str:
    path = asked.target.partition("?")[0]
    operation = ROUTES.get((asked.method, path))
    if operation is None:
        known = any(path == there for _, there in ROUTES)
        code = "method_not_allowed" if known else "not_found"
        ways = ", ".join(" ".join(route) for route in ROUTES)
        raise Invalid("there is nothing to be had here", remedy=f"this node answers: {ways}", code=code)
    if who.kind not in ALLOWED[operation]:
        raise NotPermitted(
            f"a node gives {operation} to {' and '.join(sorted(ALLOWED[operation]))}, not to {who}",
            remedy="ask the hub instead: holdfast node show NAME",
        )
    return operation


def refusal(trouble: HoldfastError, extra: Mapping[str, str] | None = None) -> Answer:
    headers = dict(extra or {}) | {faults.EXIT_HEADER: str(trouble.exit_code)}
    status = faults.status(trouble, writing=True)
    if isinstance(trouble, Limited):
        headers["Retry-After"] = str(max(int(trouble.retry_after_s + 0.999), 1))
    return Answer(status, codec.write(faults.fault(trouble)), headers)


def _stranger(why: str, code: str) -> Unauthenticated:
    return Unauthenticated(
        f"the request is refused: {why}",
        remedy="ask through the hub; from outside a node answers its hub and its operators: holdfast node show NAME",
        code=code,
    )
