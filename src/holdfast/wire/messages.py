"""The messages of the hub's HTTP interface. Values only; bytes travel as base64, names are fixed within /v1. Those of
tokens are in token_messages.py, so that other commands need not load them (ADR 0003).

Two releases that are one apart understand each other: a reader ignores unknown fields, a writer of /v1 never drops a
required one, and `wire` says which generation of fields the writer knew.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.model.hub_status import HubStatus
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, DigestText, Head

GENERATION = 1

# The most that one page holds; a larger limit is lowered to this.
PAGE_RECORDS = 200
PAGE_LINKS = 500
PAGE_CONTENTS = 60  # so many digests fit into the target of a signed request

Wire = Annotated[int, Meta(ge=1, description="generation of message fields the writer knows")]


class HeadAnswer(Struct, frozen=True):
    """`number` 0: nothing is applied yet."""

    head: Head
    wire: Wire = GENERATION


class AppliedRevision(Struct, frozen=True):
    """Every part is named by a digest in another part; the reader verifies that."""

    head: Head
    header: bytes
    table: bytes
    trust: bytes


class AppliedAnswer(Struct, frozen=True):
    """`suspect` False: as far as the hub knows, no content of this revision is damaged or missing. None: an older hub,
    which does not say."""

    revision: AppliedRevision | None
    suspect: bool | None = None
    wire: Wire = GENERATION


class HistoryPage(Struct, frozen=True):
    """Records from the newest requested downwards; an empty page is the end of history, a short one is not."""

    revisions: tuple[RevisionRecord, ...]
    converged: tuple[int, ...] = ()  # those whose services all reported once that they run as applied
    wire: Wire = GENERATION


class RevisionAnswer(Struct, frozen=True):
    """`header` is the exact text that operators signed."""

    record: RevisionRecord
    header: bytes
    wire: Wire = GENERATION


class LinksPage(Struct, frozen=True):
    """Links in rising order from the first requested; ask again after the last one received."""

    links: tuple[Link, ...]
    wire: Wire = GENERATION


class ContentsPage(Struct, frozen=True):
    """Contents by digest; the reader verifies each."""

    contents: dict[DigestText, bytes]
    wire: Wire = GENERATION


class ObservationsAnswer(Struct, frozen=True):
    nodes: dict[str, NodeObservation]
    wire: Wire = GENERATION


class DamagedAnswer(Struct, frozen=True):
    digests: tuple[str, ...]
    wire: Wire = GENERATION


class StatusAnswer(HubStatus, frozen=True):
    """The status, flat, so that it is easy to read with curl."""

    wire: Wire = GENERATION


class HealthAnswer(Struct, frozen=True):
    ok: bool = True
    wire: Wire = GENERATION


class CommitRequest(Struct, frozen=True):
    """A signed revision. The table is not repeated among the blobs."""

    header: bytes
    table: bytes
    blobs: dict[DigestText, bytes]
    signatures: tuple[str, ...]
    wire: Wire = GENERATION
    message: str | UnsetType = UNSET  # hubs before this field ignore it


class MendRequest(Struct, frozen=True):
    blobs: dict[DigestText, bytes]
    wire: Wire = GENERATION


class MendAnswer(Struct, frozen=True):
    mended: int
    wire: Wire = GENERATION


class CancelOrderRequest(Struct, frozen=True):
    """The path names the order."""

    wire: Wire = GENERATION


class OrderCancelled(Struct, frozen=True):
    """This hub will not deliver it any more."""

    id: str
    wire: Wire = GENERATION


class OrderTaken(Struct, frozen=True):
    """The order is durable at the hub and will be delivered."""

    id: str
    wire: Wire = GENERATION


class RevocationTaken(Struct, frozen=True):
    """The key is refused from now on."""

    revoked: bool = True
    wire: Wire = GENERATION


class AuditPage(Struct, frozen=True):
    """Lines exactly as written, oldest first; an empty page is the end. `entries`: number of the newest line."""

    lines: tuple[bytes, ...]
    entries: int = 0
    wire: Wire = GENERATION


def commit_request(candidate: Candidate) -> CommitRequest:
    blobs = {digest: content for digest, content in candidate.blobs.items() if content != candidate.table}
    return CommitRequest(candidate.header, candidate.table, blobs, candidate.signatures, message=candidate.message)


def candidate_of(request: CommitRequest) -> Candidate:
    return Candidate(request.header, request.table, dict(request.blobs), request.signatures, request.message)


def status_answer(status: HubStatus) -> StatusAnswer:
    return StatusAnswer(*(getattr(status, name) for name in HubStatus.__struct_fields__))


def status_of(answer: StatusAnswer) -> HubStatus:
    return HubStatus(*(getattr(answer, name) for name in HubStatus.__struct_fields__))
