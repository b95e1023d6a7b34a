"""After a crash: every operation under way is resumed from its steps or closed as failed, before anything new.

The rule for each kind of operation is with the act of its keeper (agent/keeper.py).
"""

from collections.abc import Mapping

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.keeper import Act, OrderRun, Say
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.orders.order_journal import OrderJournal
from holdfast.agent.orders.running import Running, unpacked
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.journal import JournalEntry
from holdfast.model.order import OrderResult, VerifiedOrder
from holdfast.ports.clock import Clock
from holdfast.trust import orders as rules


class CrashRecovery:
    def __init__(
        self,
        *,
        journal: OrderJournal,
        accepting: Accepting,
        running: Running,
        results: OrderResults,
        acts: Mapping[str, Act],
        clock: Clock,
        say: Say,
        fleet: str,
        node: str,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._accepting = accepting
        self._running = running
        self._results = results
        self._say = say
        self._acts = acts
        self._fleet = fleet
        self._node = node

    def settle(self) -> int:
        """How many operations were found under way. What is resumed runs in its lane, like any other order."""
        found = self._journal.unfinished()
        for entry in found:
            act = self._acts.get(entry.operation.kind)
            proof = self._proof(entry) if act is not None and act.after_crash == "resume" else None
            fields: dict[str, object] = {"operation": entry.operation.id, "kind": entry.operation.kind}
            self._say("resumed" if proof else "settled", fields)
            if proof is not None:
                self._running.resume(OrderRun(entry.operation, proof, entry.steps))
            else:
                self._compensate(entry, act)
        return len(found)

    def _proof(self, entry: JournalEntry) -> VerifiedOrder | None:
        """Verified again, at the time at which it was taken."""
        signed, trust = unpacked(entry.operation.arguments), self._accepting.trust
        if signed is None or trust is None:
            return None
        try:
            return rules.verify_begun(signed, self._fleet, self._node, trust, entry.operation.begun_s)
        except HoldfastError:
            return None

    def _compensate(self, entry: JournalEntry, act: Act | None) -> None:
        operation = entry.operation
        why = act.why if act is not None else "this release cannot resume it"
        message = f"the agent was interrupted while it did this: {why}"
        result = None
        if operation.order:
            result = OrderResult(
                operation.order,
                operation.attempt,
                "failed",
                "interrupted",
                message,
                "check it (`holdfast agent journal` on the node), then order it again if it is still wanted",
                self._clock.now_s(),
            )
        event = Event("agent", operation.kind, operation.lane, "failed", message, operation.order)
        self._journal.compensated(operation, result, event)
        if result is not None:
            self._results.keep(result, operation.attempt)
            self._results.proven(result)
