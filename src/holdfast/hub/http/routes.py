"""Every route of the hub as one table: what it takes, what it answers, what it may cost. Matching is pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from holdfast.errors import Invalid
from holdfast.hub.http import limits
from holdfast.hub.http.counter import Counter
from holdfast.hub.http.desk import Ask, Desk
from holdfast.model.canonical import INT_MAX
from holdfast.model.checkin import (
    CheckIn,
    CheckInAnswer,
    JoinAnswer,
    JoinRequest,
    NodeNews,
    NodesAnswer,
)
from holdfast.model.invite import SignedRevocation
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrdersAnswer
from holdfast.model.salvage import BODY_BYTES_MAX as SALVAGE_BYTES_MAX
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.wire import messages

# read: beside others, commits included; sweep: reads the whole ledger, one at a time; write: one at a time; fleet: on
# the event loop, where the fleet lives, for as long as the fleet likes; stream: the same, and the connection is a pipe
# to somebody else afterwards.
Cost = Literal["read", "sweep", "write", "fleet", "stream"]


class Parameter(Struct, frozen=True):
    name: str
    least: int
    most: int
    default: int | None = None


class Word(Struct, frozen=True):
    """A parameter that is a name; may be left out, and is "" then."""

    name: str
    form: str


class Route(Struct, frozen=True):
    """`run` is a method of the Desk and blocks; of cost "fleet" or "stream" it is one of the Counter and awaited."""

    method: str
    path: str
    operation: str  # trust/permissions.py says who may
    summary: str
    run: Callable[[Any, Ask], Any]
    answer: type | None  # None: plain bytes
    request: type | None = None
    query: tuple[Parameter | Word, ...] = ()
    cost: Cost = "read"
    body_bytes_max: int = limits.BODY_BYTES_MAX
    refusals: tuple[int, ...] = ()


NEWEST = Parameter("newest", 0, INT_MAX, 0)
LIMIT = Parameter("limit", 1, limits.HISTORY_MAX, 20)
FIRST = Parameter("first", 1, INT_MAX)
LAST = Parameter("last", 1, INT_MAX)
AFTER = Parameter("after", 0, INT_MAX, 0)
LINES = Parameter("limit", 1, limits.AUDIT_LINES_MAX, limits.AUDIT_LINES_MAX)
NODE = Word("node", r"[a-z][a-z0-9-]{0,39}")
NAMES = Word("names", r"[a-z][a-z0-9-]{0,39}(,[a-z][a-z0-9-]{0,39}){0,99}")
WAIT_MS = Parameter("wait_ms", 0, 60_000, 0)
LARGE = limits.LARGE_BODY_BYTES_MAX
REFUSED = (400, 408, 409, 413, 415, 417)

ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", "health", "Is this process answering?", Desk.health, messages.HealthAnswer),
    Route("GET", "/openapi.json", "describe", "This description", Desk.openapi, dict),
    Route("GET", "/v1/head", "read-head", "Number and digest of the revision served", Desk.head, messages.HeadAnswer),
    Route("GET", "/v1/applied", "read-applied", "The revision served, whole", Desk.applied, messages.AppliedAnswer),
    Route(
        "GET",
        "/v1/history",
        "read-history",
        "Records of revisions, newest first; newest=0 begins at the head",
        Desk.history,
        messages.HistoryPage,
        query=(NEWEST, LIMIT),
        refusals=(400, 409),
    ),
    Route(
        "GET",
        "/v1/revisions/{number}",
        "read-history",
        "One revision: its record and the text that was signed",
        Desk.revision,
        messages.RevisionAnswer,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/links",
        "read-links",
        "The chain of revisions as a verifier needs it, in pages",
        Desk.links,
        messages.LinksPage,
        query=(FIRST, LAST),
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/blobs/{digest}",
        "read-content",
        "Content by its sha256, exactly as stored",
        Desk.blob,
        None,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/observations",
        "read-observations",
        "What nodes were last seen to be",
        Desk.observations,
        messages.ObservationsAnswer,
        refusals=(409,),
    ),
    Route(
        "GET",
        "/v1/status",
        "read-status",
        "What this hub says of itself",
        Desk.status,
        messages.StatusAnswer,
        refusals=(409,),
    ),
    Route(
        "GET",
        "/v1/damaged",
        "read-damage",
        "Contents that the revision served needs and the ledger cannot give",
        Desk.damaged,
        messages.DamagedAnswer,
        cost="sweep",
        refusals=(409,),
    ),
    Route(
        "POST",
        "/v1/revisions",
        "commit",
        "Commit a signed revision; answers when it is durable",
        Desk.commit,
        messages.HeadAnswer,
        messages.CommitRequest,
        cost="write",
        body_bytes_max=LARGE,
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/blobs",
        "mend",
        "Store damaged or missing contents anew",
        Desk.mend,
        messages.MendAnswer,
        messages.MendRequest,
        cost="write",
        body_bytes_max=LARGE,
        refusals=REFUSED,
    ),
    # ---- tokens
    Route("GET", "/v1/tokens", "read-tokens", "Every token, newest first", Desk.tokens, messages.TokensAnswer),
    Route(
        "POST",
        "/v1/tokens",
        "make-token",
        "Make a token that reads; its secret is in this answer and nowhere else",
        Desk.make_token,
        messages.TokenMade,
        messages.TokenRequest,
        cost="write",
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/tokens/{token}/revocation",
        "revoke-token",
        "End a token",
        Desk.revoke_token,
        messages.TokenAnswer,
        messages.RevokeTokenRequest,
        cost="write",
        refusals=(*REFUSED, 404),
    ),
    # ---- nodes
    Route(
        "POST",
        "/v1/salvage",
        "salvage",
        "Hand over signed revisions to a hub that lost its ledger",
        Desk.salvage,
        SalvageAnswer,
        SalvagePart,
        cost="write",
        body_bytes_max=SALVAGE_BYTES_MAX,
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/join",
        "join",
        "Enrol with a signed invite",
        Counter.join,
        JoinAnswer,
        JoinRequest,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/check-in",
        "check-in",
        "Report, and fetch what is new; held until there is something, at most wait_s",
        Counter.check_in,
        CheckInAnswer,
        CheckIn,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "GET",
        "/v1/node/blobs/{digest}",
        "read-own-content",
        "Content that the calling node's manifest names, exactly as stored",
        Desk.own_blob,
        None,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/nodes",
        "read-nodes",
        "Every node, or those named, its health and what it signed",
        Desk.nodes,
        NodesAnswer,
        query=(NAMES,),
        refusals=(400,),
    ),
    Route(
        "GET",
        "/v1/nodes/news",
        "read-nodes",
        "Which nodes have said something else since; held until there is one, at most wait_ms",
        Counter.news,
        NodeNews,
        query=(AFTER, WAIT_MS),
        cost="fleet",
        refusals=(400,),
    ),
    Route(
        "POST",
        "/v1/orders",
        "order",
        "Hand in a signed order; answers when it is durable",
        Counter.order,
        messages.OrderTaken,
        SignedOrder,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "GET",
        "/v1/orders",
        "read-orders",
        "Orders and what became of them, newest first",
        Desk.orders,
        OrdersAnswer,
        query=(NODE, LIMIT),
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/streams/{order}",
        "stream",
        "One end of the stream that this order opens; with `Upgrade: holdfast-stream/1` the answer is 101 and a pipe",
        Counter.stream,
        None,
        cost="stream",
        refusals=(400, 404, 409),
    ),
    Route(
        "POST",
        "/v1/revocations",
        "revoke",
        "Shut a node's key out at once; needs operators' signatures",
        Counter.revoke,
        messages.RevocationTaken,
        SignedRevocation,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "GET",
        "/v1/audit",
        "read-audit",
        "Audit lines of the hub, or of a node as it sent them",
        Desk.audit,
        messages.AuditPage,
        query=(NODE, AFTER, LINES),
        refusals=(400, 404, 409),
    ),
)

_FORM: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "number": (r"[1-9][0-9]{0,14}", int),
    "digest": (r"[0-9a-f]{64}", str),
    "token": (r"[0-9a-f]{16}", str),
    "order": (r"[0-9a-f]{32}", str),
}
_PATTERNS = {
    path: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", re.escape(path).replace(r"\{", "{").replace(r"\}", "}")))
    for path in {route.path for route in ROUTES}
}


class MethodNotAllowed(Invalid):
    code = "method_not_allowed"

    def __init__(self, allow: str) -> None:
        super().__init__("this path does not take that method", remedy=f"use one of: {allow}")
        self.allow = allow


def match(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route and its path parameters as written. HEAD is GET whose body stays behind."""
    here = [(route, found) for route in ROUTES if (found := _PATTERNS[route.path].fullmatch(path))]
    if not here:
        raise Invalid("there is nothing at this path", remedy="GET /openapi.json lists every path", code="not_found")
    for route, found in here:
        if route.method == ("GET" if method == "HEAD" else method):
            return route, found.groupdict()
    methods = {route.method for route, _ in here}
    raise MethodNotAllowed(", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set()))))


def path_values(written: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, text in written.items():
        form, kind = _FORM[name]
        if not re.fullmatch(form, text):
            raise _malformed(name, form)
        values[name] = kind(text)
    return values


def query_values(route: Route, written: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Parameters nobody here knows are ignored: a newer client may send them."""
    texts: dict[str, list[str]] = {}
    for name, text in written:
        texts.setdefault(name, []).append(text)
    return {
        p.name: _word(p, texts.get(p.name, [])) if isinstance(p, Word) else _number(p, texts.get(p.name, []))
        for p in route.query
    }


def _word(word: Word, texts: list[str]) -> str:
    if not texts:
        return ""
    if len(texts) != 1 or not re.fullmatch(word.form, texts[0], re.ASCII):
        raise _malformed(word.name, word.form)
    return texts[0]


def _number(parameter: Parameter, texts: list[str]) -> int:
    if not texts and parameter.default is not None:
        return parameter.default
    if len(texts) != 1 or not re.fullmatch(r"[0-9]{1,16}", texts[0], re.ASCII):
        raise _malformed(parameter.name, "a whole number, once")
    number = int(texts[0])
    if not parameter.least <= number <= parameter.most:
        raise _malformed(parameter.name, f"{parameter.least} to {parameter.most}")
    return number


def _malformed(name: str, form: str) -> Invalid:
    return Invalid(f"{name} is not what it must be: {form}", remedy="GET /openapi.json describes every parameter")
