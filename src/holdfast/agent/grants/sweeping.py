"""Which credentials are unused: what nodes said they hold, and for how long. In memory: a new start proves nothing."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.agent.grants.books import Books
from holdfast.agent.grants.declared import Declarations
from holdfast.agent.link.pace import Pace
from holdfast.model.holdings import Holdings
from holdfast.reconcile import grants as rules
from holdfast.reconcile.grants import Absence, Book, Grant
from holdfast.trust.holdings import VerifiedHoldings
from holdfast.wire.need_messages import GONE_MAX

SWEEP_HEARTBEATS = 10.0  # as often as a node tells its providers


class Sweeping:
    """`is_sure` is false while the state of this provider was put back. `due` has the handles to revoke, and why."""

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        pace: Pace,
        is_sure: Callable[[], bool],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._declared = declared
        self._books = books
        self._pace = pace
        self._is_sure = is_sure
        self._monotonic_s = monotonic_s
        self._last: dict[str, Holdings] = {}
        self._absences: dict[str, Absence] = {}
        self.due: dict[str, str] = {}

    def follow(self) -> None:
        """Note which needs are not declared any more, and which are again."""
        for book in self._books.all():
            is_declared = (book.service, book.need, book.node) in self._declared.pairs
            if is_declared and book.dropped_in:
                self._books.keep(replace(book, dropped_in=0))
            elif not is_declared and not book.dropped_in:
                self._books.keep(replace(book, dropped_in=self._declared.number))
            for grant in book.grants:
                if is_declared:
                    self._absences.pop(grant.handle, None)
                    self.due.pop(grant.handle, None)
                elif book.node in self._declared.removed:
                    self.due[grant.handle] = "its node was removed"

    def heard(self, node: str, told: VerifiedHoldings) -> None:
        said = told.said
        if rules.is_older(said, self._last.get(node)):
            return
        self._last[node] = said
        for book in self._books.of_node(node):
            for grant in book.grants:
                self._weigh(book, grant, said)

    def unknown(self, said: Holdings) -> tuple[str, ...]:
        """Handles that this provider took back. None while its state was put back: then it may have forgotten them."""
        if not self._is_sure():
            return ()
        known = {grant.handle for book in self._books.of_node(said.node) for grant in book.grants}
        return tuple(handle for handle in said.handles if handle not in known)[:GONE_MAX]

    def _weigh(self, book: Book, grant: Grant, said: Holdings) -> None:
        verdict = rules.judge(book, grant, said, self._is_sure())
        if verdict == "replaced":
            self.due[grant.handle] = "a newer one is in use"
        elif verdict == "absent":
            now_s, interval_s = self._monotonic_s(), self._pace.cadence.heartbeat_s * SWEEP_HEARTBEATS
            absence = rules.counted(self._absences.get(grant.handle), said.life, now_s, interval_s)
            self._absences[grant.handle] = absence
            grace_s = self.grace_s(grant)
            if grace_s is not None and absence.sum_s >= grace_s:
                self.due[grant.handle] = "unused for the whole grace"
        else:
            self._absences.pop(grant.handle, None)
            self.due.pop(grant.handle, None)
        if verdict == "present" and grant.stage == "issued":
            held = replace(grant, stage="held", answer=b"")
            self._books.keep_grant((book.service, book.need, book.node), held)

    def grace_s(self, grant: Grant) -> float | None:
        offer = self._declared.offers.get(grant.type)
        return offer.grace_s if offer is not None else None

    def goes_s(self, grant: Grant) -> float | None:
        """Seconds of absence that are missing; None while it is not known to be unused."""
        absence, grace_s = self._absences.get(grant.handle), self.grace_s(grant)
        if absence is None or grace_s is None:
            return None
        return max(grace_s - absence.sum_s, 0.0)

    def done(self, grant: Grant) -> None:
        self.due.pop(grant.handle, None)
        self._absences.pop(grant.handle, None)
