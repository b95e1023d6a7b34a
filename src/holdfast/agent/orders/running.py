"""Run orders: each once, in the lane of its service, by the act of the keeper that has it."""

import binascii
from collections import OrderedDict
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.lanes import Lanes
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.orders.order_journal import OrderJournal
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.model.audit import Event
from holdfast.model.journal import Operation, OrderUse, Outcome
from holdfast.model.order import OrderResult, Refusal, SignedOrder, VerifiedOrder
from holdfast.ports.random_source import RandomSource

KEPT = 1024  # results of the hub's own small requests
_SMALL = frozenset({"ping", "check-in"})  # asked by a hub: nothing to remember, nothing to repeat


class Running:
    def __init__(
        self,
        *,
        acts: Mapping[str, Act],
        journal: OrderJournal,
        lanes: Lanes,
        results: OrderResults,
        time: NodeTime,
        random: RandomSource,
    ) -> None:
        self._acts = acts
        self._journal = journal
        self._lanes = lanes
        self._results = results
        self._time = time
        self._random = random
        self._attempts: dict[str, int] = {}  # of orders under way: the newest lease gets the result
        self._small: OrderedDict[str, OrderResult] = OrderedDict()

    def is_known(self, order: str, attempt: int) -> bool:
        """It runs or ran: its result is sent, again or later. An order never has a second effect (I-27)."""
        if order in self._attempts:
            self._attempts[order] = max(attempt, self._attempts[order])
            return True
        kept = self._journal.result_of(order) or self._small.get(order)
        if kept is not None:
            self._results.keep(kept, attempt)
        return kept is not None

    def begin(self, proof: VerifiedOrder, signed: SignedOrder, attempt: int) -> Refusal | None:
        order = proof.order
        lane = order.target.partition(".")[2] if not order.target.startswith("node.") else order.target
        self._lanes.check_room(lane)
        operation = self._operation(order.action, lane, packed(signed), order.id, attempt)
        if not self._journal.begin(operation, OrderUse(order.id, order.counter, order.nonce, order.expires_s)):
            return Refusal("replayed", "this order, its counter or its nonce was used before", "sign a new one")
        self._queue(OrderRun(operation, proof), small=False)
        return None

    def begin_asked(self, action: str, target: str, id: str, attempt: int) -> None:
        """A request that a hub may make without a signature."""
        operation = self._operation(action, target, {}, id, attempt)
        small = action in _SMALL
        if not small:
            self._journal.begin(operation)
        self._queue(OrderRun(operation, None), small)

    def resume(self, run: OrderRun) -> None:
        """What a crash interrupted, from where it was."""
        self._queue(run, small=False)

    def _operation(self, kind: str, lane: str, arguments: dict[str, str], order: str, attempt: int) -> Operation:
        return Operation(self._random.token(16).hex(), kind, lane, self._time.now_s(), arguments, order, attempt)

    def _queue(self, run: OrderRun, small: bool) -> None:
        self._attempts[run.operation.order] = run.operation.attempt
        if not small:
            self._lanes.operations.add(run.operation.id)
        self._lanes.put(run.operation.lane, lambda: self._run(run, small))

    async def _run(self, run: OrderRun, small: bool) -> None:
        operation = run.operation
        principal = ",".join(f"operator:{signer.operator}" for signer in run.proof.signers) if run.proof else "hub"
        target = run.proof.order.target if run.proof else operation.lane
        event = Event(principal, operation.kind, target, "begun", "", operation.order)
        result = await self._performed(run, None if small else event)
        outcome: Outcome = "done" if result.outcome == "done" else "failed"
        if small:
            self._remember(result)
        else:
            await self._journal.finish(operation, outcome, result, event)
        if run.proof is not None:
            self._results.proven(result)
        self._lanes.operations.discard(operation.id)
        self._results.keep(result, self._attempts.pop(operation.order, operation.attempt))

    async def _performed(self, run: OrderRun, event: Event | None) -> OrderResult:
        operation = run.operation
        blank = OrderResult(operation.order, operation.attempt, "failed")
        perform = self._acts[operation.kind].perform
        assert perform is not None, "an order for what no keeper performs is refused"
        try:
            if event is not None:
                self._journal.begun(event)
            result = replace(blank, outcome="done", message=await perform(run))
        except HoldfastError as trouble:
            result = replace(blank, code=trouble.code, message=trouble.message, remedy=trouble.remedy)
        except OSError as trouble:
            result = replace(blank, code="system_error", message=str(trouble), remedy="check the disk of this node")
        return replace(result, finished_s=self._time.now_s())

    def _remember(self, result: OrderResult) -> None:
        self._small[result.id] = result
        while len(self._small) > KEPT:
            self._small.popitem(last=False)


def packed(signed: SignedOrder) -> dict[str, str]:
    """The order as it came, so that it is verified again after a crash."""
    return {"signed": binascii.b2a_base64(msgspec.json.encode(signed), newline=False).decode("ascii")}


def unpacked(arguments: dict[str, str]) -> SignedOrder | None:
    try:
        return msgspec.json.decode(binascii.a2b_base64(arguments["signed"]), type=SignedOrder)
    except (KeyError, ValueError):
        return None
