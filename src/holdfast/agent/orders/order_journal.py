"""Orders in the journal and in the audit log: durable before they run, and before their result is reported."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.journal import JournalEntry, Operation, OrderUse, Outcome
from holdfast.model.order import OrderResult
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.journal import Journal

RETRY_S = 10.0


class OrderJournal:
    def __init__(self, *, journal: Journal, audit: AuditLog, findings: Findings, say: Say) -> None:
        self._journal = journal
        self._audit = audit
        self._findings = findings
        self._say = say

    def begin(self, operation: Operation, use: OrderUse | None = None) -> bool:
        """False if this order, its counter or its nonce was used before."""
        return self._journal.begin(operation, use)

    def unfinished(self) -> Sequence[JournalEntry]:
        """Operations that a crash interrupted."""
        return list(self._journal.unfinished())

    def compensated(self, operation: Operation, result: OrderResult | None, event: Event) -> None:
        """An interrupted operation that is not resumed."""
        self._journal.finish(operation.id, "compensated", result)
        self._audit.append(event)

    def result_of(self, order: str) -> OrderResult | None:
        return self._journal.result_of(order)

    def begun(self, event: Event) -> None:
        self._audit.append(event)

    async def finish(self, operation: Operation, outcome: Outcome, result: OrderResult, event: Event) -> None:
        """Nothing is reported as done before it is written down; a full disk is waited for."""
        while True:
            try:
                self._journal.finish(operation.id, outcome, result)
                self._audit.append(replace(event, result=outcome, detail=result.message))
                break
            except (HoldfastError, OSError) as trouble:
                message = getattr(trouble, "message", str(trouble))
                remedy = getattr(trouble, "remedy", "check the disk of this node")
                self._findings.add("state_unwritable", message, remedy)
                await asyncio.sleep(RETRY_S)
        self._findings.clear("state_unwritable")
        self._say("order_ended", {"order": operation.order, "kind": operation.kind, "outcome": outcome})
