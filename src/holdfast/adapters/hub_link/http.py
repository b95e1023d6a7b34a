"""The hub behind a URL, as commands use it. Checks every answer that has a digest; every wait has a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.adapters.hub_link.asking import Asking
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import NodeNews, NodesAnswer
from holdfast.model.hub_status import HubStatus
from holdfast.model.ids import TRUST
from holdfast.model.invite import SignedRevocation
from holdfast.model.observation import NodeObservation
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrdersAnswer, OrderView
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, Head, decode_header, decode_table
from holdfast.model.token import NewToken, Token
from holdfast.model.trust import Trust
from holdfast.wire import messages

RECORDS_MAX = 1_000
NAMES_MAX = 100
KEPT_MAX, KEPT_BYTES_MAX = 1_000, 16 * 1024
HEADS_MAX = 10_000_000  # one a minute for nineteen years


class Contents(Mapping[str, bytes]):
    """Contents by digest, fetched when asked for; `known` are those the applied revision itself names. A command that
    waits asks for the same few again and again: these are kept."""

    def __init__(self, hub: HttpHub, known: Sequence[str]) -> None:
        self._hub = hub
        self._known = known
        self._kept: dict[str, bytes] = {}

    def __getitem__(self, digest: str) -> bytes:
        if digest in self._kept:
            return self._kept[digest]
        found = self._hub.blob(digest)
        if found is None:
            raise KeyError(digest)
        if len(self._kept) < KEPT_MAX and len(found) <= KEPT_BYTES_MAX:
            self._kept[digest] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class HttpHub(Asking):
    # ---- reading

    def applied(self) -> Applied | None:
        said = self.get("/v1/applied", messages.AppliedAnswer).revision
        if said is None:
            return None
        try:
            return self._believed(said)
        except UnicodeDecodeError as trouble:
            raise _lie("a text in its answer is not UTF-8") from trouble

    def _believed(self, said: messages.AppliedRevision) -> Applied:
        header = decode_header(_proven(said.header, said.head.digest, "the header"))
        if header.number != said.head.number:
            raise _lie(f"the head is number {said.head.number}, its header says {header.number}")
        table = decode_table(_proven(said.table, header.resources, "the resource table"))
        if TRUST not in table.entries or table.entries[TRUST].digest != header.trust:
            raise _lie("the table and the header name different trusts")
        trust = canonical.decode(_proven(said.trust, header.trust, "the trust"), Trust, "the trust")
        named = {header.resources, *header.manifests.values(), *(e.digest for e in table.entries.values())}
        return Applied(said.head, header, table, trust, Contents(self, sorted(named)))

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
            raise _lie(f"a head of number {last:,} is not plausible")
        first = max(first, 1)
        found: list[Link] = []
        while (at := first + len(found)) <= last:
            ask = f"/v1/links?first={at}&last={min(last, at + messages.PAGE_LINKS - 1)}"
            page = self.get(ask, messages.LinksPage).links
            if not page:
                raise _lie(f"it sends no revision {at}, without a reason")
            found += page
        return found[: max(last - first + 1, 0)]

    def blob(self, digest: str) -> bytes | None:
        answer = self.ask("GET", f"/v1/blobs/{digest}", None)
        if answer.status == 404:
            return None
        return _proven(self.checked(answer).body, digest, "the content")

    def observations(self) -> dict[str, NodeObservation]:
        return self.get("/v1/observations", messages.ObservationsAnswer).nodes

    def damaged(self) -> list[str]:
        return list(self.get("/v1/damaged", messages.DamagedAnswer).digests)

    def status(self) -> HubStatus:
        return messages.status_of(self.get("/v1/status", messages.StatusAnswer))

    # ---- writing

    def commit(self, candidate: Candidate) -> Head:
        head = self.post("/v1/revisions", messages.commit_request(candidate), messages.HeadAnswer).head
        self.visit.fleet = decode_header(candidate.header).fleet  # the first revision founds the fleet
        return head

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        return self.post("/v1/blobs", messages.MendRequest(dict(blobs)), messages.MendAnswer).mended

    # ---- nodes and orders

    def nodes(self) -> NodesAnswer:
        return self.get("/v1/nodes", NodesAnswer)

    def nodes_named(self, names: Sequence[str]) -> NodesAnswer:
        """More than fit into a question are all."""
        return self.get(f"/v1/nodes?names={','.join(names)}", NodesAnswer) if len(names) <= NAMES_MAX else self.nodes()

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

    def orders(self, node: str = "", limit: int = 20) -> tuple[OrderView, ...]:
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
        made = self.post("/v1/tokens", messages.TokenRequest(name, expires_in_s), messages.TokenMade)
        return NewToken(made.token, made.text)

    def tokens(self) -> tuple[Token, ...]:
        return self.get("/v1/tokens", messages.TokensAnswer).tokens

    def revoke_token(self, token_id: str) -> Token:
        return self.post(f"/v1/tokens/{token_id}/revocation", messages.RevokeTokenRequest(), messages.TokenAnswer).token


def _proven(content: bytes, digest: str, what: str) -> bytes:
    if canonical.digest(content) != digest:
        raise _lie(f"{what} does not match its digest {digest[:12]}…")
    return content


def _lie(why: str) -> Corrupt:
    return Corrupt(
        f"the hub gives an answer that cannot be true: {why}",
        remedy="do not apply; look at the machine the hub runs on and restore its state directory from a backup",
        code="hub_lies",
    )
