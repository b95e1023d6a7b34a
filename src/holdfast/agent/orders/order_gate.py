"""Whether an order may run here: its signatures, its counter, what this release performs, and the gate."""

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.keeper import Act
from holdfast.agent.orders.order_horizon import OrderHorizon
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.time import NodeTime
from holdfast.errors import TryLater
from holdfast.gate import facts
from holdfast.gate.acts import ACT_OF
from holdfast.gate.authority import UNSIGNED, Authority, by_order
from holdfast.gate.decide import Deed, Park, decide
from holdfast.model.order import ACTIONS, HubOrder, Refusal, SignedOrder, VerifiedOrder
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Storage
from holdfast.trust import orders as rules

ASKED_KEPT = 100  # times of requests of a hub, for its limit per hour


class OrderGate:
    def __init__(
        self,
        *,
        journal: Journal,
        storage: Storage,
        accepting: Accepting,
        horizon: OrderHorizon,
        life: OrderLife,
        time: NodeTime,
        acts: Mapping[str, Act],
        fleet: str,
        node: str,
    ) -> None:
        self._journal = journal
        self._storage = storage
        self._accepting = accepting
        self.horizon = horizon
        self.life = life
        self._time = time
        self._built = frozenset(kind for kind, act in acts.items() if act.perform is not None)
        self._fleet = fleet
        self._node = node

    # ---- signed orders

    def check_trust(self) -> None:
        if self._accepting.trust is None:
            raise TryLater("no revision is accepted yet, so no signature counts", remedy="holdfast status")

    def verified(self, signed: SignedOrder) -> VerifiedOrder:
        self._time.keep()
        assert self._accepting.trust is not None
        return rules.verify(signed, self._fleet, self._node, self._accepting.trust, self._time.now_s())

    def refusal(self, proof: VerifiedOrder, opens_stream: bool) -> Refusal | None:
        order = proof.order
        too_old = self.horizon.refusal(order)
        if too_old is not None:
            return too_old
        other_life = self.life.refusal(proof)
        if other_life is not None:
            return other_life
        replayed = rules.replay(order, self.life.counter(), self._journal.used_counter)
        if replayed is not None:
            return replayed
        if order.action not in self._built and not opens_stream:
            return Refusal(
                "not_built", f"this release cannot {order.action} yet", "`holdfast --help` lists what is built"
            )
        return self._gate(order.action, order.target, by_order(proof))

    def _gate(self, action: str, target: str, authority: Authority) -> Refusal | None:
        looked = facts.NO_THING
        if target.startswith("data."):
            directory = self._storage.directory(target.removeprefix("data."))
            looked = facts.look(self._journal, directory, None)
        decision = decide(Deed(ACT_OF[action], target, self._node, looked, authority))
        if isinstance(decision, Park):
            return Refusal("signature_required", decision.reason, decision.sign)
        return None

    # ---- requests of a hub

    def target_of(self, order: HubOrder) -> str:
        return order.target or f"node.{self._node}"

    def asked_refusal(self, order: HubOrder) -> Refusal | None:
        """None: it may run, and is counted."""
        now_s = self._time.now_s()
        fact = f"hub-asked/{order.action[:40]}"
        recent = msgspec.json.decode(self._journal.fact(fact) or b"[]", type=list[float])
        refusal = rules.hub_may(order, self._node, recent, now_s)
        if refusal is None and order.action not in self._built:
            refusal = Refusal("not_built", f"this release cannot {order.action} yet", "holdfast --help")
        refusal = refusal or self._gate(order.action, self.target_of(order), UNSIGNED)
        if refusal is None and ACTIONS[order.action].hub_per_hour:
            self._count(fact, recent, now_s)
        return refusal

    def _count(self, fact: str, recent: Sequence[float], now_s: float) -> None:
        """Before it is done."""
        lately = [at_s for at_s in recent if now_s - at_s < rules.HOUR_S][-ASKED_KEPT:]
        self._journal.set_aside(fact, msgspec.json.encode([*lately, now_s]))
