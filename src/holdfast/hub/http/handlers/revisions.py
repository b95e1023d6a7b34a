"""Revisions as they were signed: the one that is served, its history, its chain, and contents by digest."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import Invalid
from holdfast.hub.http import limits
from holdfast.hub.http.operation import FOUNDERS, NODES, READERS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import LIMIT, Parameter, Route, Word
from holdfast.model import canonical
from holdfast.model.applied import Applied, content, head_of
from holdfast.model.canonical import INT_MAX
from holdfast.model.record import Link
from holdfast.model.revision import Head, encode_header
from holdfast.ports.hub_link import HubReader
from holdfast.wire import codec, messages

READ_HEAD = Operation("read-head", "number and digest of the revision served", READERS | FOUNDERS | NODES)
READ_APPLIED = Operation("read-applied", "the revision served, whole", READERS | FOUNDERS)
READ_HISTORY = Operation("read-history", "records of revisions, and the text that was signed", READERS | FOUNDERS)
# Headers and trust: what an agent verifies, nothing of other nodes (D8).
READ_LINKS = Operation("read-links", "the chain of revisions as a verifier needs it", READERS | NODES)
READ_CONTENT = Operation("read-content", "any content by its digest", READERS)

NEWEST = Parameter("newest", 0, INT_MAX, 0)
FIRST = Parameter("first", 1, INT_MAX)
LAST = Parameter("last", 1, INT_MAX)
DIGESTS = Word("digests", rf"[0-9a-f]{{64}}(,[0-9a-f]{{64}}){{0,{messages.PAGE_CONTENTS - 1}}}")


class Convergence(Protocol):
    def converged(self, revisions: Sequence[Head]) -> tuple[int, ...]: ...


class Revisions:
    def __init__(self, hub: HubReader, fleet: Convergence) -> None:
        self._hub = hub
        self._fleet = fleet
        self._written: tuple[Applied | None, bool, bytes] | None = None

    def head(self, request: Request) -> bytes:
        return codec.write(messages.HeadAnswer(head_of(self._hub.applied())))

    def applied(self, request: Request) -> bytes:
        """Encoded once per revision: the answer may be large, and every command asks for the same one."""
        applied, suspect, last = self._hub.applied(), self._hub.suspects_damage(), self._written
        if last is None or last[0] is not applied or last[1] is not suspect:
            answer = messages.AppliedAnswer(_revision(applied) if applied else None, suspect)
            last = self._written = (applied, suspect, codec.write(answer))
        return last[2]

    def history(self, request: Request) -> bytes:
        found = tuple(self._hub.records(request.query["newest"], request.query["limit"]))
        converged = self._fleet.converged([Head(record.number, record.digest) for record in found])
        return codec.write(messages.HistoryPage(found, converged))

    def revision(self, request: Request) -> bytes:
        number = request.path["number"]
        found = [record for record in self._hub.records(number, 1) if record.number == number]
        if not found:
            raise not_found(
                f"revision {number} is not in the ledger", "`holdfast history` lists the revisions there are"
            )
        link = self._hub.links(number, number)[0]
        return codec.write(messages.RevisionAnswer(found[0], link.header_bytes))

    def links(self, request: Request) -> bytes:
        """As many as were asked for, or as fit into one page; at least one."""
        first, last = request.query["first"], request.query["last"]
        last = min(last, first + limits.LINKS_MAX - 1)
        page: list[Link] = []
        size_bytes = 0
        for number in range(first, last + 1):
            page += self._hub.links(number, number)
            size_bytes += len(page[-1].header_bytes) + len(page[-1].trust_bytes)
            if size_bytes > limits.LINKS_PAGE_BYTES:
                break
        return codec.write(messages.LinksPage(tuple(page)))

    def blob(self, request: Request) -> bytes:
        return stored(self._hub, request.path["digest"])

    def blobs(self, request: Request) -> bytes:
        """As many as fit into one page. What is missing or damaged is left out: `blob` answers why."""
        page: dict[str, bytes] = {}
        left_bytes = limits.CONTENTS_PAGE_BYTES
        for digest in dict.fromkeys(filter(None, request.query["digests"].split(","))):
            found = self._hub.blob(digest)
            if found is not None and len(found) <= left_bytes and canonical.digest(found) == digest:
                page[digest] = found
                left_bytes -= len(found)
        return codec.write(messages.ContentsPage(page))


def stored(hub: HubReader, digest: str) -> bytes:
    """Verifies the digest before sending: the disk may have corrupted the content."""
    found = hub.blob(digest)
    if found is None:
        raise not_found(f"no stored revision has the content {digest[:12]}…", "`holdfast hub check` lists damage")
    return content({digest: found}, digest, "this blob")


def not_found(message: str, remedy: str) -> Invalid:
    return Invalid(message, remedy=remedy, code="not_found")


def _revision(applied: Applied) -> messages.AppliedRevision:
    """From memory, not from the disk: canonical bytes are the same bytes every time."""
    return messages.AppliedRevision(
        applied.head,
        encode_header(applied.header),
        canonical.encode(applied.table),
        canonical.encode(applied.trust),
    )


ROUTES = (
    Route(
        "GET",
        "/v1/head",
        READ_HEAD,
        "Number and digest of the revision served",
        Revisions,
        Revisions.head,
        messages.HeadAnswer,
    ),
    Route(
        "GET",
        "/v1/applied",
        READ_APPLIED,
        "The revision served, whole",
        Revisions,
        Revisions.applied,
        messages.AppliedAnswer,
    ),
    Route(
        "GET",
        "/v1/history",
        READ_HISTORY,
        "Records of revisions, newest first; newest=0 begins at the head",
        Revisions,
        Revisions.history,
        messages.HistoryPage,
        query=(NEWEST, LIMIT),
        refusals=(400, 409),
    ),
    Route(
        "GET",
        "/v1/revisions/{number}",
        READ_HISTORY,
        "One revision: its record and the text that was signed",
        Revisions,
        Revisions.revision,
        messages.RevisionAnswer,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/links",
        READ_LINKS,
        "The chain of revisions as a verifier needs it, in pages",
        Revisions,
        Revisions.links,
        messages.LinksPage,
        query=(FIRST, LAST),
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/blobs/{digest}",
        READ_CONTENT,
        "Content by its sha256, exactly as stored",
        Revisions,
        Revisions.blob,
        None,
        refusals=(400, 404, 409),
    ),
    Route(
        "GET",
        "/v1/contents",
        READ_CONTENT,
        "Contents by their sha256, several at once; those that are missing, damaged or too long are left out",
        Revisions,
        Revisions.blobs,
        messages.ContentsPage,
        query=(DIGESTS,),
        refusals=(400, 409),
    ),
)
