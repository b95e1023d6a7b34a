"""What the hub answers at its HTTP counter, one method per route. Blocking, so it runs off the event loop."""

from typing import Any

from msgspec import Struct

from holdfast.errors import Invalid
from holdfast.hub import limits
from holdfast.model import canonical
from holdfast.model.applied import Applied, content, head_of
from holdfast.model.record import Link
from holdfast.model.revision import encode_header
from holdfast.ports.hub_link import HubLink
from holdfast.wire import codec, messages


class Ask(Struct, frozen=True):
    """A request after every check of its form."""

    path: dict[str, Any] = {}
    query: dict[str, int] = {}
    body: bytes | bytearray = b""


class Desk:
    def __init__(self, hub: HubLink, openapi: bytes) -> None:
        self._hub = hub
        self._openapi = openapi
        self._written: tuple[Applied | None, bytes] = (None, codec.write(messages.AppliedAnswer(None)))

    def health(self, ask: Ask) -> bytes:
        return codec.write(messages.HealthAnswer())

    def openapi(self, ask: Ask) -> bytes:
        return self._openapi

    def head(self, ask: Ask) -> bytes:
        return codec.write(messages.HeadAnswer(head_of(self._hub.applied())))

    def applied(self, ask: Ask) -> bytes:
        """Written once per revision: the answer may be large, and every node asks for the same."""
        applied = self._hub.applied()
        seen, written = self._written
        if applied is not seen:
            written = codec.write(messages.AppliedAnswer(_revision(applied) if applied else None))
            self._written = (applied, written)
        return written

    def status(self, ask: Ask) -> bytes:
        return codec.write(messages.status_answer(self._hub.status()))

    def observations(self, ask: Ask) -> bytes:
        return codec.write(messages.ObservationsAnswer(dict(self._hub.observations())))

    def history(self, ask: Ask) -> bytes:
        return codec.write(messages.HistoryPage(tuple(self._hub.records(ask.query["newest"], ask.query["limit"]))))

    def revision(self, ask: Ask) -> bytes:
        number = ask.path["number"]
        found = [record for record in self._hub.records(number, 1) if record.number == number]
        if not found:
            raise _not_found(
                f"revision {number} is not in the ledger", "holdfast history lists the revisions there are"
            )
        link = self._hub.links(number, number)[0]
        return codec.write(messages.RevisionAnswer(found[0], link.header_bytes))

    def links(self, ask: Ask) -> bytes:
        """As many as were asked for, or as fit into one page; at least one."""
        first, last = ask.query["first"], ask.query["last"]
        last = min(last, first + limits.LINKS_MAX - 1)
        page: list[Link] = []
        size_bytes = 0
        for number in range(first, last + 1):
            page += self._hub.links(number, number)
            size_bytes += len(page[-1].header_bytes) + len(page[-1].trust_bytes)
            if size_bytes > limits.LINKS_PAGE_BYTES:
                break
        return codec.write(messages.LinksPage(tuple(page)))

    def blob(self, ask: Ask) -> bytes:
        """Checked on the way out: a disk that rots must not make this hub a liar."""
        digest = ask.path["digest"]
        found = self._hub.blob(digest)
        if found is None:
            raise _not_found(f"no stored revision has the content {digest[:12]}…", "holdfast hub check lists damage")
        return content({digest: found}, digest, "this blob")

    def damaged(self, ask: Ask) -> bytes:
        return codec.write(messages.DamagedAnswer(tuple(self._hub.damaged())))

    def commit(self, ask: Ask) -> bytes:
        candidate = messages.candidate_of(codec.read(ask.body, messages.CommitRequest))
        return codec.write(messages.HeadAnswer(self._hub.commit(candidate)))

    def mend(self, ask: Ask) -> bytes:
        request = codec.read(ask.body, messages.MendRequest)
        return codec.write(messages.MendAnswer(self._hub.mend(request.blobs)))


def _revision(applied: Applied) -> messages.AppliedRevision:
    """From memory, not from the disk: canonical bytes are the same bytes every time."""
    return messages.AppliedRevision(
        applied.head,
        encode_header(applied.header),
        canonical.encode(applied.table),
        canonical.encode(applied.trust),
    )


def _not_found(message: str, remedy: str) -> Invalid:
    return Invalid(message, remedy=remedy, code="not_found")
