"""Nodes: they join, check in, fetch their contents and return revisions; readers list them and wait for changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from holdfast.hub.http.handlers.revisions import not_found, stored
from holdfast.hub.http.limiter import Limiter
from holdfast.hub.http.operation import JOINING, NODES, READERS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import REFUSED, Parameter, Route, Word
from holdfast.hub.nodes.node_contents import Belongings
from holdfast.model.canonical import INT_MAX
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.node_view import NodeNews, NodesAnswer
from holdfast.model.principal import Principal
from holdfast.model.revision import NO_HEAD
from holdfast.model.salvage import BODY_BYTES_MAX as SALVAGE_BYTES_MAX
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.ports.clock import Clock
from holdfast.ports.hub_link import HubLink
from holdfast.wire import codec

# A hub that lost its ledger knows no node; every part proves itself by signatures.
SALVAGE = Operation("salvage", "return signed revisions to a hub that lost its ledger", JOINING)
JOIN = Operation("join", "enrol as a node with a signed invite", JOINING)
# An unknown key gets the answer that it is unknown, and joins again (D-04).
CHECK_IN = Operation("check-in", "report as a node, and fetch what is new for it", JOINING)
READ_OWN_CONTENT = Operation("read-own-content", "contents that the caller's own manifest names", NODES)
READ_NODES = Operation("read-nodes", "every node with its health, pulse and report", READERS)

AFTER = Parameter("after", 0, INT_MAX, 0)
WAIT_MS = Parameter("wait_ms", 0, 60_000, 0)
NAMES = Word("names", r"[a-z][a-z0-9-]{0,39}(,[a-z][a-z0-9-]{0,39}){0,99}")


class Joining(Protocol):
    """It writes its own refusals into the audit log, as check-ins do."""

    async def join(self, principal: Principal, request: JoinRequest, source: str) -> JoinAnswer: ...


class CheckIns(Protocol):
    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool]
    ) -> CheckInAnswer:
        """Held for as long as the message allows and there is nothing new."""
        ...


class NodeViews(Protocol):
    async def news(self, after: int, wait_s: float) -> NodeNews:
        """Held until a node has reported something else."""
        ...

    def nodes(self, names: Collection[str] = ()) -> NodesAnswer:
        """From any thread."""
        ...


class SalvageStore(Protocol):
    def take(self, part: SalvagePart) -> SalvageAnswer: ...


class Nodes:
    def __init__(
        self,
        *,
        hub: HubLink,
        joining: Joining,
        check_ins: CheckIns,
        views: NodeViews,
        limiter: Limiter,
        clock: Clock,
        salvage: SalvageStore | None,
    ) -> None:
        self._hub = hub
        self._joining = joining
        self._check_ins = check_ins
        self._views = views
        self._limiter = limiter
        self._clock = clock
        self._salvage = salvage
        self._contents = Belongings(hub.links, hub.blob)

    def salvage(self, request: Request) -> bytes:
        """A hub that has a revision knows its nodes: then only they return what it lost."""
        part = codec.read(request.body, SalvagePart)
        is_node = request.principal.kind == "node" and part.node == request.principal.name
        if self._salvage is None or not (is_node or self._hub.applied() is None):
            return codec.write(SalvageAnswer(False, NO_HEAD))
        return codec.write(self._salvage.take(part))

    async def join(self, request: Request) -> bytes:
        """Only an accepted join counts against the limit: a refused one costs the node no minute (D-08)."""
        wanted = codec.read(request.body, JoinRequest)
        self._limiter.register(request.principal, self._clock.monotonic_s())
        answer = await self._joining.join(request.principal, wanted, request.source)
        if answer.accepted:
            self._limiter.registered(request.principal, self._clock.monotonic_s())
        return codec.write(answer)

    async def check_in(self, request: Request) -> bytes:
        message = codec.read(request.body, CheckIn)
        self._limiter.check_in(request.principal, message.heartbeat, self._clock.monotonic_s())
        answer = await self._check_ins.check_in(request.principal, message, request.source, request.is_gone)
        return codec.write(answer)

    def own_blob(self, request: Request) -> bytes:
        """Content of the calling node's own manifest (D8); what other nodes have does not exist for it."""
        applied, digest, node = self._hub.applied(), request.path["digest"], request.principal.name
        if applied is None or not self._contents.has(applied, node, digest):
            raise not_found(
                f"the manifest of {node} names no content {digest[:12]}…",
                "check in first: the manifest in its answer names what there is",
            )
        return stored(self._hub, digest)

    def nodes(self, request: Request) -> bytes:
        names = request.query["names"]
        return codec.write(self._views.nodes(frozenset(names.split(",")) if names else ()))

    async def news(self, request: Request) -> bytes:
        return codec.write(await self._views.news(request.query["after"], request.query["wait_ms"] / 1000))


ROUTES = (
    Route(
        "POST",
        "/v1/salvage",
        SALVAGE,
        "Return signed revisions to a hub that lost its ledger",
        Nodes,
        Nodes.salvage,
        SalvageAnswer,
        SalvagePart,
        cost="write",
        body_bytes_max=SALVAGE_BYTES_MAX,
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/join",
        JOIN,
        "Enrol with a signed invite",
        Nodes,
        Nodes.join,
        JoinAnswer,
        JoinRequest,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/check-in",
        CHECK_IN,
        "Report, and fetch what is new; held until there is something, at most wait_s",
        Nodes,
        Nodes.check_in,
        CheckInAnswer,
        CheckIn,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "GET",
        "/v1/node/blobs/{digest}",
        READ_OWN_CONTENT,
        "Content that the calling node's manifest names, exactly as stored",
        Nodes,
        Nodes.own_blob,
        None,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/nodes",
        READ_NODES,
        "Every node, or those named, its health and what it signed",
        Nodes,
        Nodes.nodes,
        NodesAnswer,
        query=(NAMES,),
        refusals=(400,),
    ),
    Route(
        "GET",
        "/v1/nodes/news",
        READ_NODES,
        "Which nodes have reported something else since; held until there is one, at most wait_ms",
        Nodes,
        Nodes.news,
        NodeNews,
        query=(AFTER, WAIT_MS),
        cost="fleet",
        refusals=(400,),
    ),
)
