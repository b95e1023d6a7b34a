"""The starts ("lives") of this agent, and whether its state was put back: then no order runs before a signed resync."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Act, OrderRun, Say
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.model.order import Order, Refusal, VerifiedOrder
from holdfast.model.report import Pulse, SignedPulse
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.random_source import RandomSource
from holdfast.trust import lives as rules

LIVES, FLOOR, NEEDED = "lives", "order-floor", "resync"
FINDING = "resync_needed"
RESYNC = "resync"


class Needed(Struct, frozen=True):
    """As stored: orders wait for a resync. `counter` is the highest that this node is known to have used."""

    why: str
    counter: int


class OrderLife:
    """`current` is random and in the journal before a pulse has it."""

    def __init__(
        self,
        *,
        journal: Journal,
        time: NodeTime,
        findings: Findings,
        random: RandomSource,
        key: IdentityKey,
        say: Say,
        fleet: str,
        node: str,
    ) -> None:
        self._journal = journal
        self._time = time
        self._findings = findings
        self._key = key
        self._say = say
        self._fleet = fleet
        self._node = node
        self.current = random.token(16).hex()
        self._is_noted = False
        self._lives = msgspec.json.decode(journal.fact(LIVES) or b"{}", type=rules.Lives)
        self._floor = int(journal.fact(FLOOR) or b"0")
        self._needed = msgspec.json.decode(journal.fact(NEEDED) or b"null", type=Needed | None)
        self.acts: Mapping[str, Act] = {RESYNC: Act(self._resync, "resume", "it only notes a number, again")}
        self._show()

    # ---- for pulses

    def noted(self) -> str:
        """This life, durable: a pulse of a life that the journal does not know would look like state put back."""
        if not self._is_noted:
            lives = self._lives.with_new(rules.Life(self.current, self._time.now_s()))
            self._journal.set_aside(LIVES, msgspec.json.encode(lives))
            self._lives, self._is_noted = lives, True
        return self.current

    def counter(self) -> int:
        """The highest order counter that this node is known to have used, also if its journal lost it."""
        needed = self._needed.counter if self._needed is not None else 0
        return max(self._journal.highest_counter(), self._floor, needed)

    @property
    def is_sure(self) -> bool:
        """False while the state of this node was put back, and no operator signed a resync."""
        return self._needed is None

    # ---- looking back

    def heard(self, signed: SignedPulse) -> None:
        """A pulse that the hub has of this node: only one that this node signed proves anything."""
        with suppress(HoldfastError):  # unwritten, the hub shows it again; a forged one is nothing
            self._look_back(rules.own(signed, self._fleet, self._node, self._key.line))

    def _look_back(self, pulse: Pulse) -> None:
        found = rules.set_back(pulse, self._known(), self.counter())
        if found is None:
            return
        needed = Needed(found.why, max(found.counter, self.counter()))
        self._journal.set_aside(NEEDED, msgspec.json.encode(needed))
        self._needed = needed
        self._show()
        self._say(FINDING, {"message": found.why, "counter": found.counter})

    def _known(self) -> rules.Lives:
        return self._lives if self._is_noted else self._lives.with_new(rules.Life(self.current, self._time.now_s()))

    def _show(self) -> None:
        if self._needed is None:
            self._findings.clear(FINDING)
            return
        self._findings.add(FINDING, f"the state of this node was put back: {self._needed.why}", self._remedy())

    def _remedy(self) -> str:
        return f"holdfast resync {self._node}"

    # ---- orders

    def refusal(self, proof: VerifiedOrder) -> Refusal | None:
        order = proof.order
        pulse = rules.own(order.pulse, self._fleet, self._node, self._key.line)
        self._look_back(pulse)
        if self._needed is not None and order.action != RESYNC:
            return Refusal(
                FINDING,
                f"the state of {order.node} was put back, so it runs no order before a resync: {self._needed.why}",
                f"{self._remedy()}; then sign it again: "
                + rules.SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target),
            )
        return rules.refusal(order, pulse, self.current) or self._before_resync(order)

    def _before_resync(self, order: Order) -> Refusal | None:
        if order.counter > self._floor:
            return None
        return Refusal(
            "replayed",
            f"this order was signed before the last resync of {order.node} (counters {order.counter} and "
            f"{self._floor}), so it may have run already",
            "if it is still wanted, sign it again: "
            + rules.SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target),
        )

    async def _resync(self, run: OrderRun) -> str:
        assert run.proof is not None, "a hub may not order it"
        floor = max(run.proof.order.counter, self.counter())
        self._journal.set_aside(FLOOR, b"%d" % floor)
        self._floor = floor
        lives = replace(self._known(), since_s=self._time.now_s())
        self._journal.set_aside(LIVES, msgspec.json.encode(lives))
        self._lives, self._is_noted = lives, True
        self._journal.drop_fact(NEEDED)
        self._needed = None
        self._show()
        return f"orders run again; those with a counter up to {floor} do not"
