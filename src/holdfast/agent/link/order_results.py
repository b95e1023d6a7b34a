"""Results of orders: kept until a hub has them, and repeated in every pulse, where no hub can change them.

A hub's own small requests have ids of their own here (`hub/…`), so that none of them answers for a signed order.
"""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from holdfast.errors import HoldfastError, Limited
from holdfast.model.checkin import RESULTS_MAX
from holdfast.model.order import OrderResult
from holdfast.model.report import PULSE_RESULTS_MAX
from holdfast.ports.journal import Journal

UNSENT_MAX = 1024
HUB = "hub/"
_REFUSED_MAX = 16  # of the places in a pulse: refusing is cheap to provoke, and must not push out what was done


class OrderResults:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.unsent: OrderedDict[str, OrderResult] = OrderedDict(
            (result.id, result) for result in journal.unsent(UNSENT_MAX)
        )
        self._ran: OrderedDict[str, str] = OrderedDict()
        self._refused: OrderedDict[str, str] = OrderedDict()
        for entry in reversed(journal.entries(4 * PULSE_RESULTS_MAX)):
            if entry.result is not None:
                self.proven(entry.result)

    def check_room(self) -> None:
        """A hub that takes no results gets no more of them (it could fill this machine's memory)."""
        if len(self.unsent) >= UNSENT_MAX:
            raise Limited(
                f"the hub has stored none of {UNSENT_MAX} results, so no further order is run",
                remedy="`holdfast hub check` on the hub's machine; check that this is the right hub",
            )

    def keep(self, result: OrderResult, attempt: int) -> None:
        if result.id in self.unsent or len(self.unsent) < UNSENT_MAX:
            self.unsent[result.id] = replace(result, attempt=attempt)

    def waiting(self) -> tuple[OrderResult, ...]:
        """The oldest, by the ids a hub knows them by."""
        return tuple(_as_asked(result) for result, _ in zip(self.unsent.values(), range(RESULTS_MAX), strict=False))

    def taken(self, ids: Iterable[str]) -> None:
        both = [one for id in ids for one in (id, HUB + id)]
        mine = [one for one in both if self.unsent.pop(one, None) is not None]
        with suppress(HoldfastError):  # unwritten, it is sent once more after a restart, and ignored
            self._journal.taken(mine)

    def proven(self, result: OrderResult) -> None:
        """Of an order that operators really signed."""
        if result.id.startswith(HUB):
            return
        if result.outcome == "refused":
            _newest(self._refused, result, _REFUSED_MAX)
        else:
            self._refused.pop(result.id, None)
            _newest(self._ran, result, PULSE_RESULTS_MAX - _REFUSED_MAX)

    def told(self) -> dict[str, str]:
        """For the pulse."""
        return {**self._refused, **self._ran}


def _newest(kept: "OrderedDict[str, str]", result: OrderResult, most: int) -> None:
    kept[result.id] = result.outcome
    kept.move_to_end(result.id)
    while len(kept) > most:
        kept.popitem(last=False)


def _as_asked(result: OrderResult) -> OrderResult:
    return replace(result, id=result.id[len(HUB) :]) if result.id.startswith(HUB) else result
