"""The hub behind a URL, as commands use it. Checks every answer that has a digest; every wait has a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.adapters.hub_link.http.backups import StoredBackups
from holdfast.adapters.hub_link.http.revision import checked_revision, lie, proven
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.node_view import NodeNews, NodesAnswer
from holdfast.model.revision import Candidate, Head, decode_header
from holdfast.wire import messages
from holdfast.wire.messages import AppliedRevision

if TYPE_CHECKING:
    from holdfast.model.hub_status import HubStatus
    from holdfast.model.invite import SignedRevocation
    from holdfast.model.observation import NodeObservation
    from holdfast.model.order import SignedOrder
    from holdfast.model.order_view import OrderView
    from holdfast.model.record import Link, RevisionRecord
    from holdfast.model.token import NewToken, Token

APPLIED, OBSERVATIONS, NODES, BLOBS = "/v1/applied", "/v1/observations", "/v1/nodes", "/v1/blobs/"
RECORDS_MAX = 1_000
NAMES_MAX = 100
HEADS_MAX = 10_000_000  # one a minute for nineteen years


class HttpHub(StoredBackups):
    _revision: AppliedRevision | None = None  # the last one that is proven, and what was read of it
    _applied: Applied | None = None
    _suspect: bool | None = None

    # ---- reading

    def expect_plan(self) -> None:
        self.send_ahead(APPLIED, OBSERVATIONS, NODES)

    def expect_content(self, digest: str) -> None:
        self.send_also(f"{BLOBS}{digest}")

    def applied(self) -> Applied | None:
        """Fetched once: afterwards the head shows whether another revision came."""
        if self._applied is not None and self._head() == self._applied.head:
            return self._applied
        answer = self.get(APPLIED, messages.AppliedAnswer)
        self._suspect, self._revision = answer.suspect, answer.revision
        self._applied = checked_revision(answer.revision, self) if answer.revision is not None else None
        return self._applied

    def _head(self) -> Head | None:
        answer = self.ask("GET", "/v1/head", None)
        return None if answer.status == 404 else self.message(answer, messages.HeadAnswer).head

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        limit = min(limit, RECORDS_MAX)
        found: list[RevisionRecord] = []
        while len(found) < limit:
            ask = f"/v1/history?newest={max(newest, 0)}&limit={min(limit - len(found), messages.PAGE_RECORDS)}"
            page = self.get(ask, messages.HistoryPage).revisions
            found += page
            if not page or page[-1].number <= 1:
                break
            newest = page[-1].number - 1
        return found

    def links(self, first: int, last: int) -> list[Link]:
        if last > HEADS_MAX:  # the number of a head is not proven before its chain was walked
            raise lie(f"a head of number {last:,} is not plausible")
        first = max(first, 1)
        found: list[Link] = []
        while (at := first + len(found)) <= last:
            ask = f"/v1/links?first={at}&last={min(last, at + messages.PAGE_LINKS - 1)}"
            page = self.get(ask, messages.LinksPage).links
            if not page:
                raise lie(f"it sends no revision {at}, without a reason")
            found += page
        return found[: max(last - first + 1, 0)]

    def blob(self, digest: str) -> bytes | None:
        answer = self.ask("GET", f"{BLOBS}{digest}", None)
        if answer.status == 404:
            return None
        return proven(self.checked(answer).body, digest, "the content")

    def blobs(self, digests: Sequence[str]) -> dict[str, bytes] | None:
        """Those of them that the hub can give in one page; None if this hub gives one at a time only."""
        answer = self.ask("GET", f"/v1/contents?digests={','.join(digests)}", None)
        if answer.status == 404:
            return None
        page = self.message(answer, messages.ContentsPage).contents
        return {digest: proven(content, digest, "the content") for digest, content in page.items()}

    def observations(self) -> dict[str, NodeObservation]:
        return self.get(OBSERVATIONS, messages.ObservationsAnswer).nodes

    def suspects_damage(self) -> bool:
        """As it was said with the applied revision; an older hub does not say."""
        return self._suspect is not False

    def damaged(self) -> list[str]:
        return list(self.get("/v1/damaged", messages.DamagedAnswer).digests)

    def status(self) -> HubStatus:
        return messages.status_of(self.get("/v1/status", messages.StatusAnswer))

    # ---- writing

    def commit(self, candidate: Candidate) -> Head:
        head = self.post("/v1/revisions", messages.commit_request(candidate), messages.HeadAnswer).head
        self.visit.fleet = decode_header(candidate.header).fleet  # the first revision founds the fleet
        self._keep(candidate, head)
        return head

    def _keep(self, candidate: Candidate, head: Head) -> None:
        """If the hub applied what was sent, its parts are here already; they are proven as if they were fetched."""
        last, self._applied = self._revision, None
        digest = decode_header(candidate.header).trust
        trust = candidate.blobs.get(digest) or (last.trust if last and canonical.digest(last.trust) == digest else None)
        if trust is None or head.digest != canonical.digest(candidate.header):
            return
        self._revision = AppliedRevision(head, candidate.header, candidate.table, trust)
        self._applied = checked_revision(self._revision, self, candidate.blobs)

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        return self.post("/v1/blobs", messages.MendRequest(dict(blobs)), messages.MendAnswer).mended

    # ---- nodes and orders

    def nodes(self) -> NodesAnswer:
        return self.get(NODES, NodesAnswer)

    def nodes_named(self, names: Sequence[str]) -> NodesAnswer:
        """More than fit into a question are all."""
        return self.get(f"{NODES}?names={','.join(names)}", NodesAnswer) if len(names) <= NAMES_MAX else self.nodes()

    def news(self, after: int, wait_s: float) -> NodeNews | None:
        answer = self.ask("GET", f"/v1/nodes/news?after={after}&wait_ms={int(wait_s * 1000)}", None)
        return None if answer.status == 404 else self.message(answer, NodeNews)

    def converged(self, newest: int, limit: int) -> list[int]:
        found: list[int] = []
        while limit > 0:
            page = self.get(
                f"/v1/history?newest={newest}&limit={min(limit, messages.PAGE_RECORDS)}", messages.HistoryPage
            )
            found += page.converged
            if not page.revisions or page.revisions[-1].number <= 1:
                break
            newest, limit = page.revisions[-1].number - 1, limit - len(page.revisions)
        return found

    def submit(self, order: SignedOrder) -> str:
        return self.post("/v1/orders", order, messages.OrderTaken).id

    def cancel_order(self, order: str) -> None:
        self.post(f"/v1/orders/{order}/cancellation", messages.CancelOrderRequest(), messages.OrderCancelled)

    def orders(self, node: str = "", limit: int = 20) -> tuple[OrderView, ...]:
        from holdfast.model.order_view import OrdersAnswer

        of = f"node={node}&" if node else ""
        return self.get(f"/v1/orders?{of}limit={limit}", OrdersAnswer).orders

    def revoke(self, revocation: SignedRevocation) -> None:
        self.post("/v1/revocations", revocation, messages.RevocationTaken)

    def audit_lines(self, node: str = "", after: int = 0, limit: int = 1_000) -> tuple[bytes, ...]:
        of = f"node={node}&" if node else ""
        return self.get(f"/v1/audit?{of}after={after}&limit={limit}", messages.AuditPage).lines

    def audit_entries(self, node: str = "") -> int:
        of = f"node={node}&" if node else ""
        return self.get(f"/v1/audit?{of}after=0&limit=1", messages.AuditPage).entries

    # ---- tokens

    def create_token(self, name: str, expires_in_s: int) -> NewToken:
        from holdfast.model.token import NewToken
        from holdfast.wire import token_messages

        made = self.post("/v1/tokens", token_messages.TokenRequest(name, expires_in_s), token_messages.TokenMade)
        return NewToken(made.token, made.text)

    def tokens(self) -> tuple[Token, ...]:
        from holdfast.wire import token_messages

        return self.get("/v1/tokens", token_messages.TokensAnswer).tokens

    def revoke_token(self, token_id: str) -> Token:
        from holdfast.wire import token_messages

        target = f"/v1/tokens/{token_id}/revocation"
        return self.post(target, token_messages.RevokeTokenRequest(), token_messages.TokenAnswer).token
