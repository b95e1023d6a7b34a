"""Orders: verified with this node's own trust, judged by the gate, durable before acting, run once, answered always."""

import asyncio
import binascii
from collections import OrderedDict

import msgspec
from msgspec.structs import replace

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.findings import Findings
from holdfast.agent.lanes import Lanes
from holdfast.agent.link.order_results import HUB, OrderResults
from holdfast.agent.membership import Membership
from holdfast.agent.orders.actions import Act, Performer
from holdfast.agent.orders.order_horizon import OrderHorizon
from holdfast.agent.orders.stream_orders import StreamOrders
from holdfast.agent.time import NodeTime
from holdfast.agent.world import World
from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater
from holdfast.gate import facts
from holdfast.gate.acts import ACT_OF
from holdfast.gate.authority import NOBODY, Authority, by_order
from holdfast.gate.decide import Deed, Park, decide
from holdfast.model.audit import Event
from holdfast.model.journal import Operation, OrderUse, Outcome
from holdfast.model.order import (
    ACTIONS,
    Delivered,
    HubOrder,
    Order,
    OrderResult,
    Refusal,
    SignedOrder,
    VerifiedOrder,
    decode_order,
)
from holdfast.trust import orders as rules

KEPT = 1024  # refusals and the hub's own small requests, answered again without a second look
RETRY_S = 10.0
HUB_ID_MAX = 64  # longer ids are not answered
_SMALL = frozenset({"ping", "check-in"})  # of a hub: nothing to remember, nothing to repeat


class Orders:
    def __init__(
        self,
        world: World,
        membership: Membership,
        accepting: Accepting,
        time: NodeTime,
        findings: Findings,
        lanes: Lanes,
        performer: Performer,
    ) -> None:
        self._world = world
        self._me = membership
        self._accepting = accepting
        self._time = time
        self._findings = findings
        self._lanes = lanes
        self._performer = performer
        self._attempts: dict[str, int] = {}  # of orders under way: the newest lease gets the result
        self.under_way: set[str] = set()  # operations
        self._answered: OrderedDict[str, OrderResult] = OrderedDict()  # by digest of what was asked
        self.answers = OrderResults(world.journal)
        self.birth = OrderHorizon(world, membership, time)
        self.opening = StreamOrders(world, self.answers, time)

    # ---- taking

    def take(self, delivered: Delivered) -> None:
        """Begin it, refuse it, or answer what became of it. Without a disk to write on there is no answer: it comes
        again under a new lease."""
        try:
            self.answers.check_room()
            if delivered.signed is not None:
                self._take_signed(delivered.signed, delivered.attempt)
            elif delivered.hub is not None:
                self._take_hub(delivered.hub, delivered.attempt)
        except HoldfastError as trouble:
            if self._findings.add_trouble("order_waits", trouble):
                self._world.say("order_waits", {"code": trouble.code, "message": trouble.message})
        else:
            self._findings.clear("order_waits")

    def _take_signed(self, signed: SignedOrder, attempt: int) -> None:
        try:
            order = decode_order(signed.order)
        except Corrupt as trouble:
            self._unreadable(trouble.message)
            return
        if self.opening.known(order.id, attempt) or self._known(order.id, attempt):
            return
        if self._accepting.trust is None:
            raise TryLater("no revision is accepted yet, so nobody's signature counts", remedy="holdfast status")
        try:
            proof = self._verified(signed)
            refusal = self.birth.refusal(proof.order) or self._refusal(proof)
        except (Failed, TryLater):
            raise
        except HoldfastError as trouble:
            self._refuse(order.id, attempt, _words(trouble), order, signed)
            return
        if refusal is None and self.opening.opens(order.action):
            refusal = self.opening.begin(proof, attempt)
        elif refusal is None:
            self._begin(proof, signed, attempt)
        if refusal is not None:
            self.answers.proven(self._refuse(order.id, attempt, refusal, order, signed))

    def _unreadable(self, why: str) -> None:
        """Without an id there is nobody to answer."""
        if self._accepting.refusals.note(Event("hub", "order", "", "refused", why[:200])):
            self._world.say("order_unreadable", {"message": why[:200]})

    def _known(self, order: str, attempt: int) -> bool:
        """Asked again: the result that is kept, or the promise of one. Never a second effect (I-27)."""
        if order in self._attempts:
            self._attempts[order] = max(attempt, self._attempts[order])
            return True
        kept = self._world.journal.result_of(order)
        if kept is not None:
            self.answers.keep(kept, attempt)
        return kept is not None

    def _verified(self, signed: SignedOrder) -> VerifiedOrder:
        self._time.keep()
        assert self._accepting.trust is not None
        return rules.verify(signed, self._me.fleet, self._me.node, self._accepting.trust, self._time.now_s())

    def _refusal(self, proof: VerifiedOrder) -> Refusal | None:
        order, journal = proof.order, self._world.journal
        replayed = rules.replay(order, journal.highest_counter(), journal.used_counter)
        if replayed is not None:
            return replayed
        if order.action not in self._performer.built and not self.opening.opens(order.action):
            return Refusal(
                "not_built", f"this release cannot {order.action} yet", "holdfast --help lists what is built"
            )
        return self._gate(order.action, order.target, by_order(proof))

    def _gate(self, action: str, target: str, authority: Authority) -> Refusal | None:
        looked = facts.NO_THING
        if target.startswith("data."):
            directory = self._world.storage.directory(target.removeprefix("data."))
            looked = facts.look(self._world.journal, directory, None)
        decision = decide(Deed(ACT_OF[action], target, self._me.node, looked, authority))
        if isinstance(decision, Park):
            return Refusal("signature_required", decision.reason, decision.sign)
        return None

    def _refuse(self, order: str, attempt: int, why: Refusal, told: Order | HubOrder, content: object) -> OrderResult:
        result = OrderResult(order, attempt, "refused", why.code, why.message, why.remedy, self._time.now_s())
        key = f"{order} {why.code} {hash(msgspec.json.encode(content))}"
        if key not in self._answered:  # told once, however often it is sent
            self._remember(key, result)
            who = "operator" if isinstance(told, Order) else "hub"
            if self._accepting.refusals.note(
                Event(who, told.action[:60], told.target[:90], "refused", why.message, order)
            ):
                self._world.say("order_refused", {"order": order, "code": why.code, "message": why.message})
        self.answers.keep(result, attempt)
        return result

    def _remember(self, key: str, result: OrderResult) -> None:
        self._answered[key] = result
        while len(self._answered) > KEPT:
            self._answered.popitem(last=False)

    # ---- a hub's own word

    def _take_hub(self, order: HubOrder, attempt: int) -> None:
        if len(order.id) > HUB_ID_MAX:
            self._unreadable(f"its id is longer than {HUB_ID_MAX} characters")
            return
        id = HUB + order.id
        if self._known(id, attempt):
            return
        earlier = self._answered.get(id)
        if earlier is not None:
            self.answers.keep(earlier, attempt)
            return
        now_s = self._time.now_s()
        fact = f"hub-asked/{order.action[:40]}"
        recent = msgspec.json.decode(self._world.journal.fact(fact) or b"[]", type=list[float])
        refusal = rules.hub_may(order, self._me.node, recent, now_s)
        target = order.target or f"node.{self._me.node}"
        if refusal is None and order.action not in self._performer.built:
            refusal = Refusal("not_built", f"this release cannot {order.action} yet", "holdfast --help")
        refusal = refusal or self._gate(order.action, target, NOBODY)
        if refusal is not None:
            self._refuse(id, attempt, refusal, order, order)
            return
        if ACTIONS[order.action].hub_per_hour:  # counted before it is done
            recent = [at_s for at_s in recent if now_s - at_s < rules.HOUR_S][-100:]
            self._world.journal.set_aside(fact, msgspec.json.encode([*recent, now_s]))
        self._start(Operation(self._id(), order.action, target, now_s, {}, id, attempt), None)

    # ---- running

    def _begin(self, proof: VerifiedOrder, signed: SignedOrder, attempt: int) -> None:
        order = proof.order
        lane = order.target.partition(".")[2] if not order.target.startswith("node.") else order.target
        self._lanes.check_room(lane)
        operation = Operation(self._id(), order.action, lane, self._time.now_s(), packed(signed), order.id, attempt)
        use = OrderUse(order.id, order.counter, order.nonce, order.expires_s)
        if not self._world.journal.begin(operation, use):
            why = Refusal("replayed", "this order, its counter or its nonce was used before", "sign a new one")
            self.answers.proven(self._refuse(order.id, attempt, why, order, signed))
            return
        self._start(operation, proof, journaled=True)

    def _start(self, operation: Operation, proof: VerifiedOrder | None, journaled: bool = False) -> None:
        small = proof is None and operation.kind in _SMALL
        if not journaled and not small:
            self._world.journal.begin(operation)
        self._queue(Act(operation, proof), small)

    def resume(self, act: Act) -> None:
        """What a crash cut off, from where it was."""
        self._queue(act, small=False)

    def _queue(self, act: Act, small: bool) -> None:
        self._attempts[act.operation.order] = act.operation.attempt
        if not small:
            self.under_way.add(act.operation.id)
        self._lanes.put(act.operation.lane, lambda: self._run(act, small))

    async def _run(self, act: Act, small: bool) -> None:
        operation = act.operation
        principal = ",".join(f"operator:{signer.operator}" for signer in act.proof.signers) if act.proof else "hub"
        target = act.proof.order.target if act.proof else operation.lane
        event = Event(principal, operation.kind, target, "begun", "", operation.order)
        outcome: Outcome = "done"
        try:
            if not small:
                self._world.audit.append(event)
            said = await self._performer.perform(act)
            result = OrderResult(operation.order, operation.attempt, "done", message=said)
        except HoldfastError as trouble:
            outcome = "failed"
            result = OrderResult(
                operation.order, operation.attempt, "failed", trouble.code, trouble.message, trouble.remedy
            )
        except OSError as trouble:
            outcome = "failed"
            result = OrderResult(
                operation.order,
                operation.attempt,
                "failed",
                "system_error",
                str(trouble),
                "check the disk of this node",
            )
        result = replace(result, finished_s=self._time.now_s())
        if small:
            self._remember(operation.order, result)
        else:
            await self._finish(operation, outcome, result, event)
        if act.proof is not None:
            self.answers.proven(result)
        self.under_way.discard(operation.id)
        self.answers.keep(result, self._attempts.pop(operation.order, operation.attempt))

    async def _finish(self, operation: Operation, outcome: Outcome, result: OrderResult, event: Event) -> None:
        """Nothing is reported as done before that is written down; a full disk is waited for."""
        while True:
            try:
                self._world.journal.finish(operation.id, outcome, result)
                self._world.audit.append(replace(event, result=outcome, detail=result.message))
                break
            except (HoldfastError, OSError) as trouble:
                message = getattr(trouble, "message", str(trouble))
                remedy = getattr(trouble, "remedy", "check the disk of this node")
                self._findings.add("state_unwritable", message, remedy)
                await asyncio.sleep(RETRY_S)
        self._findings.clear("state_unwritable")
        self._world.say("order_ended", {"order": operation.order, "kind": operation.kind, "outcome": outcome})

    def _id(self) -> str:
        return self._world.random.token(16).hex()


def packed(signed: SignedOrder) -> dict[str, str]:
    """The order as it came, so that after a crash it is verified again, not believed."""
    return {"signed": binascii.b2a_base64(msgspec.json.encode(signed), newline=False).decode("ascii")}


def unpacked(arguments: dict[str, str]) -> SignedOrder | None:
    try:
        return msgspec.json.decode(binascii.a2b_base64(arguments["signed"]), type=SignedOrder)
    except (KeyError, ValueError):
        return None


def _words(trouble: HoldfastError) -> Refusal:
    return Refusal(trouble.code, trouble.message, trouble.remedy)
