"""Orders that only open a stream: used up durably, written into the audit log, begun at once.

They change nothing, so the journal keeps that they were used and not what they did. They wait in no lane: operators
read logs above all while a rollout is under way.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.orders.streams import Streams
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.journal import OrderUse
from holdfast.model.order import (
    Delivered,
    OrderResult,
    Refusal,
    VerifiedOrder,
    decode_order,
)
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.journal import Journal

KEPT = 256  # results, for a hub that asks again; after a restart such an order is one that was used before


class StreamOrders:
    """Without `streams` no such order is taken. `hurry` is called when there is a result: an operator waits for it."""

    def __init__(
        self,
        *,
        journal: Journal,
        audit: AuditLog,
        results: OrderResults,
        time: NodeTime,
        hurry: Callable[[], None],
        streams: Streams | None,
    ) -> None:
        self._journal = journal
        self._audit = audit
        self._answers = results
        self._time = time
        self._hurry = hurry
        self.streams = streams
        self._results: OrderedDict[str, OrderResult | None] = OrderedDict()  # None: being opened
        self._opening: set[asyncio.Task[None]] = set()

    def opens(self, action: str) -> bool:
        return self.streams is not None and action in self.streams.kinds

    def is_meant(self, delivered: Delivered) -> bool:
        """By what the order claims; it is verified when it is taken."""
        if delivered.signed is None:
            return False
        try:
            return self.opens(decode_order(delivered.signed.order).action)
        except HoldfastError:
            return False

    def known(self, order: str, attempt: int) -> bool:
        """Asked again: never a second stream."""
        if order not in self._results:
            return False
        result = self._results[order]
        if result is not None:
            self._answers.keep(result, attempt)
        return True

    def begin(self, proof: VerifiedOrder, attempt: int) -> Refusal | None:
        order = proof.order
        if not self._journal.use(OrderUse(order.id, order.counter, order.nonce, order.expires_s)):
            return Refusal("replayed", "this order, its counter or its nonce was used before", "sign a new one")
        self._results[order.id] = None
        while len(self._results) > KEPT:
            self._results.popitem(last=False)
        task = asyncio.ensure_future(self._open(proof, attempt))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return None

    async def _open(self, proof: VerifiedOrder, attempt: int) -> None:
        order = proof.order
        who = ",".join(f"operator:{signer.operator}" for signer in proof.signers)
        event = Event(who, order.action, order.target, "begun", "", order.id)
        assert self.streams is not None, "`opens` said so"
        try:
            self._audit.append(event)  # no stream opens that the audit log does not know of
            said = await self.streams.start(proof)
            result = OrderResult(order.id, attempt, "done", message=said, finished_s=self._time.now_s())
        except HoldfastError as trouble:
            result = OrderResult(
                order.id, attempt, "failed", trouble.code, trouble.message, trouble.remedy, self._time.now_s()
            )
        self._results[order.id] = result
        self._answers.keep(result, attempt)
        self._hurry()
