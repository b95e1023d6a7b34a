"""What the hub answers from its ledger, one method per route. Blocking, so it runs off the event loop."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.hub.http import limits
from holdfast.hub.http.counter import FleetCore
from holdfast.hub.nodes.node_contents import Belongings
from holdfast.model import canonical
from holdfast.model.applied import Applied, affected, content, head_of, manifests_of
from holdfast.model.audit import Event
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Head, encode_header
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.model.token import NewToken, Token
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.hub_link import HubLink
from holdfast.wire import codec, messages

NAME_SHOWN = 100  # characters of a token's name in the audit log


class Ask(Struct, frozen=True):
    """A request after every check: of its form, of who sends it, and that he may."""

    path: dict[str, Any] = {}
    query: dict[str, Any] = {}
    body: bytes | bytearray = b""
    principal: Principal = ANONYMOUS
    source: str = ""
    is_gone: Callable[[], bool] = lambda: False  # whoever asked hung up: an answer would be lost


class TokenBook(Protocol):
    def create(self, by: Principal, name: str, expires_in_s: int) -> NewToken: ...

    def list(self) -> tuple[Token, ...]: ...

    def revoke(self, token_id: str) -> Token: ...

    def principal_of(self, text: str) -> Principal: ...


class SalvageDesk(Protocol):
    def take(self, part: SalvagePart) -> SalvageAnswer: ...


class Desk:
    def __init__(
        self,
        hub: HubLink,
        openapi: bytes,
        tokens: TokenBook,
        fleet: FleetCore,
        audit: AuditLog,
        salvage: SalvageDesk | None = None,
    ) -> None:
        self._hub = hub
        self._openapi = openapi
        self._tokens = tokens
        self._fleet = fleet
        self._audit = audit
        self._salvage = salvage
        self._belongings = Belongings(hub.links, hub.blob)
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
        status = self._hub.status()
        found = (*status.findings, *self._fleet.status_findings())
        return codec.write(messages.status_answer(replace(status, findings=found)))

    def observations(self, ask: Ask) -> bytes:
        """What was written down once, and over it what is seen now."""
        return codec.write(messages.ObservationsAnswer({**self._hub.observations(), **self._fleet.observations()}))

    def history(self, ask: Ask) -> bytes:
        found = tuple(self._hub.records(ask.query["newest"], ask.query["limit"]))
        converged = self._fleet.converged([Head(record.number, record.digest) for record in found])
        return codec.write(messages.HistoryPage(found, converged))

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

    def own_blob(self, ask: Ask) -> bytes:
        """Of a node's own manifest and nobody else's (D8); what others have is for it as if it were not there."""
        applied = self._hub.applied()
        if applied is None or not self._belongings.has(applied, ask.principal.name, ask.path["digest"]):
            raise _not_found(
                f"the manifest of {ask.principal.name} names no content {ask.path['digest'][:12]}…",
                "check in first: the manifest in its answer names what there is",
            )
        return self.blob(ask)

    def damaged(self, ask: Ask) -> bytes:
        return codec.write(messages.DamagedAnswer(tuple(self._hub.damaged())))

    def commit(self, ask: Ask) -> bytes:
        candidate = messages.candidate_of(codec.read(ask.body, messages.CommitRequest))
        before = manifests_of(self._hub.applied())
        head = self._hub.commit(candidate)
        self._fleet.committed(affected(before, manifests_of(self._hub.applied())))
        return codec.write(messages.HeadAnswer(head))

    def mend(self, ask: Ask) -> bytes:
        request = codec.read(ask.body, messages.MendRequest)
        return codec.write(messages.MendAnswer(self._hub.mend(request.blobs)))

    # ---- the fleet

    def nodes(self, ask: Ask) -> bytes:
        names = ask.query["names"]
        return codec.write(self._fleet.nodes(frozenset(names.split(",")) if names else ()))

    def orders(self, ask: Ask) -> bytes:
        return codec.write(self._fleet.orders(ask.query["node"] or None, ask.query["limit"]))

    def audit(self, ask: Ask) -> bytes:
        query = ask.query
        lines = self._fleet.audit_lines(query["node"] or None, query["after"], query["limit"])
        entries = self._fleet.audit_entries(query["node"] or None)
        return codec.write(messages.AuditPage(tuple(lines), entries))

    def salvage(self, ask: Ask) -> bytes:
        part = codec.read(ask.body, SalvagePart)
        return codec.write(self._salvage.take(part) if self._salvage is not None else SalvageAnswer(False, NO_HEAD))

    # ---- tokens

    def tokens(self, ask: Ask) -> bytes:
        return codec.write(messages.TokensAnswer(self._tokens.list()))

    def make_token(self, ask: Ask) -> bytes:
        wanted = codec.read(ask.body, messages.TokenRequest)
        made = self._tokens.create(ask.principal, wanted.name, wanted.expires_in_s)
        self._note(ask, "make-token", made.token)
        return codec.write(messages.TokenMade(made.token, made.text))

    def revoke_token(self, ask: Ask) -> bytes:
        ended = self._tokens.revoke(ask.path["token"])
        self._note(ask, "revoke-token", ended)
        return codec.write(messages.TokenAnswer(ended))

    def _note(self, ask: Ask, action: str, token: Token) -> None:
        """Durable before the answer: nobody holds a token that the log does not know. Its name, never its secret."""
        said = f"{token.scope} until {token.expires_s}: {token.name[:NAME_SHOWN]}"
        self._audit.append(Event(str(ask.principal), action, f"token.{token.id}", "done", said, ask.source))


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
