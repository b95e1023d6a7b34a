"""A node's own HTTP interface: a closed list of answers, denied by default. Knows no socket and no HTTP library.

The hub's key may read the status and may knock (M-113); operators of the trust this node accepted may read; a node may
ask for the needs of its declared pairs, and for nothing else (C-12). A caller that proves none of these learns nothing,
and every refusal is in the audit log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from holdfast.agent.link import audit_folding
from holdfast.agent.local_api.callers import Callers, KnownFleet, stranger
from holdfast.errors import (
    Failed,
    HoldfastError,
    Invalid,
    Limited,
    NotPermitted,
)
from holdfast.model.principal import Kind, Principal
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.http_server import Request, Response
from holdfast.wire import codec, faults, http_signature

if TYPE_CHECKING:
    from holdfast.ports.audit_log import AuditLog
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.nonces import Nonces

log = logging.getLogger("holdfast.agent")

REQUESTS_PER_MINUTE = 60  # of one key
ASKS_PER_MINUTE = 3_000  # of one node: each of its needs, and some again
BODY_BYTES_MAX = 512 * 1024  # a statement of 1,000 handles; read for callers only who may send it
CAPABILITIES = "/v1/capabilities/"


class Holding(Struct, frozen=True):
    """A handle in use on this node that another node provides."""

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


class Capabilities(Protocol):
    """What this node gives to needs of other nodes (agent/grants)."""

    async def granted(self, node: str, type: str, body: bytes) -> bytes: ...

    async def told(self, node: str, body: bytes) -> bytes:
        """What that node holds, signed by it."""
        ...


class LocalNode(KnownFleet, Protocol):
    """The agent, as its local interface asks it. Every answer is of this moment."""

    def status(self) -> NodeStatus: ...

    def manifest(self) -> bytes | None:
        """The exact bytes of the manifest in force; None before the first."""
        ...

    def holdings(self) -> tuple[Holding, ...]: ...

    def knock(self) -> None:
        """Check in now. Two knocks in a row make one check-in."""
        ...


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
    ("POST", CAPABILITIES): "ask",  # and the type of a need
    ("POST", "/v1/holdings"): "tell",
}
ALLOWED: Mapping[str, frozenset[Kind]] = {
    "status": frozenset({"hub", "operator"}),
    "manifest": frozenset({"operator"}),
    "holdings": frozenset({"operator"}),
    "knock": frozenset({"hub"}),
    "ask": frozenset({"node"}),
    "tell": frozenset({"node"}),
}


class LocalApi:
    body_bytes_max = BODY_BYTES_MAX

    def __init__(
        self,
        node: LocalNode,
        capabilities: Capabilities,
        key: IdentityKey,
        nonces: Nonces,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._node = node
        self._capabilities = capabilities
        self._callers = Callers(node, key, clock)
        self._nonces = nonces
        self._denials = audit_folding.denials(audit, clock)
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}
        self.malformed = refusal(
            Invalid("this is not an HTTP request that a node accepts", remedy="send HTTP/1.1 within the limits")
        )

    async def answer(self, asked: Request, body: Callable[[], Awaitable[bytes]]) -> Response:
        """`body` reads at most BODY_BYTES_MAX and is called only for a caller who may ask."""
        try:
            return await self._answer(asked, body)
        except Exception:  # a defect of the agent: the caller learns nothing, the log has the details
            log.exception("%s %s failed", asked.method, asked.path)
            return refusal(Failed("this node failed to answer", remedy="read its log: journalctl -u holdfast-agent"))

    async def _answer(self, asked: Request, body: Callable[[], Awaitable[bytes]]) -> Response:
        extra: dict[str, str] = {}
        who = Principal("anonymous")
        try:
            parsed = http_signature.read(asked.method, asked.target, asked.headers)
            extra = self._callers.signed_time(parsed)
            who = self._callers.principal(parsed, asked.headers)
            operation = _permitted(who, asked)
            self._limit(parsed.line, ASKS_PER_MINUTE if who.kind == "node" else REQUESTS_PER_MINUTE)
            await self._once(parsed)
            content = await body()
            http_signature.check_body(parsed, content)
            return Response(200, await self._carry_out(operation, who, asked, content))
        except HoldfastError as trouble:
            what = f"{asked.method} {asked.target}"
            audit_folding.note_denial(self._denials, str(who), what, asked.source, trouble)
            return refusal(trouble, extra)

    def close(self) -> None:
        self._denials.fold()

    # ---- bounds

    def _limit(self, line: str, most: int) -> None:
        """Only keys that may ask are counted, so the table stays as small as the trust and the pairs."""
        now_s = self._clock.monotonic_s()
        recent = self._asked.setdefault(line, deque())
        while recent and now_s - recent[0] >= 60.0:
            recent.popleft()
        if len(recent) >= most:
            raise Limited(
                f"more than {most} requests in a minute",
                remedy="ask less often",
                retry_after_s=60.0 - (now_s - recent[0]),
            )
        recent.append(now_s)

    async def _once(self, parsed: http_signature.Parsed) -> None:
        admitted = self._nonces.admit(parsed.line, parsed.nonce, parsed.replayable_until_s)
        if not await asyncio.wrap_future(admitted):
            raise stranger("this very request was answered before", "replayed")

    # ---- what is answered

    async def _carry_out(self, operation: str, who: Principal, asked: Request, content: bytes) -> bytes:
        match operation:
            case "ask":
                return await self._capabilities.granted(who.name, _path(asked).removeprefix(CAPABILITIES), content)
            case "tell":
                return await self._capabilities.told(who.name, content)
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
                "this node has accepted no revision yet", remedy="`holdfast apply`, then ask again", code="not_found"
            )
        status = self._node.status()
        return codec.write(ManifestAnswer(status.accepted, status.manifest, msgspec.Raw(content)))


def _path(asked: Request) -> str:
    return asked.target.partition("?")[0]


def _permitted(who: Principal, asked: Request) -> str:
    path = CAPABILITIES if _path(asked).startswith(CAPABILITIES) else _path(asked)
    operation = ROUTES.get((asked.method, path))
    if operation is None or (who.kind == "node" and "node" not in ALLOWED[operation]):
        raise _unknown(path, who)
    if who.kind not in ALLOWED[operation]:
        raise NotPermitted(
            f"a node gives {operation} to {' and '.join(sorted(ALLOWED[operation]))}, not to {who}",
            remedy="ask the hub instead: holdfast node show NAME",
        )
    return operation


def _unknown(path: str, who: Principal) -> Invalid:
    """For a node nothing exists but what its pairs are for."""
    routes = [route for route, name in ROUTES.items() if who.kind != "node" or "node" in ALLOWED[name]]
    known = who.kind != "node" and any(path == there for _, there in routes)
    code = "method_not_allowed" if known else "not_found"
    ways = ", ".join(" ".join(route) for route in routes)
    return Invalid("unknown path", remedy=f"this node answers: {ways}", code=code)


def refusal(trouble: HoldfastError, extra: Mapping[str, str] | None = None) -> Response:
    headers = dict(extra or {}) | {faults.EXIT_HEADER: str(trouble.exit_code)}
    status = faults.status(trouble, writing=True)
    if isinstance(trouble, Limited):
        headers["Retry-After"] = str(max(int(trouble.retry_after_s + 0.999), 1))
    return Response(status, codec.write(faults.fault(trouble)), headers)
