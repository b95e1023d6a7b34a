"""Refuse orders: a result for the hub, one line in the audit log however often the order is sent."""

from collections import OrderedDict

import msgspec

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.order import HubOrder, Order, OrderResult, Refusal

KEPT = 1024  # refusals that are known already
WAITS = "order_waits"


class Refusing:
    def __init__(
        self, *, results: OrderResults, folding: AuditFolding, findings: Findings, time: NodeTime, say: Say
    ) -> None:
        self._results = results
        self._folding = folding
        self._findings = findings
        self._time = time
        self._say = say
        self._known: OrderedDict[str, None] = OrderedDict()

    def refuse(self, id: str, attempt: int, why: Refusal, order: Order | HubOrder, content: object) -> OrderResult:
        result = OrderResult(id, attempt, "refused", why.code, why.message, why.remedy, self._time.now_s())
        key = f"{id} {why.code} {hash(msgspec.json.encode(content))}"
        if key not in self._known:
            self._remember(key)
            who = "operator" if isinstance(order, Order) else "hub"
            event = Event(who, order.action[:60], order.target[:90], "refused", why.message, id)
            if self._folding.note(event):
                self._say("order_refused", {"order": id, "code": why.code, "message": why.message})
        self._results.keep(result, attempt)
        return result

    def unreadable(self, why: str) -> None:
        """Without an id there is no result."""
        if self._folding.note(Event("hub", "order", "", "refused", why[:200])):
            self._say("order_unreadable", {"message": why[:200]})

    def waits(self, trouble: HoldfastError) -> None:
        """It is neither refused nor begun: the hub sends it again."""
        if self._findings.add_trouble(WAITS, trouble):
            self._say(WAITS, {"code": trouble.code, "message": trouble.message})

    def taken(self) -> None:
        self._findings.clear(WAITS)

    def _remember(self, key: str) -> None:
        self._known[key] = None
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
