"""Make the signed pulses of this node: each binds the newest report and is the receipt of a revision."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from holdfast import __version__
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.time import NodeTime
from holdfast.model.report import PULSE_NAMESPACE, Pulse, SignedPulse
from holdfast.planning import formats
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.machine import Machine
from holdfast.trust import own_signature

SEQUENCE_FACT = "pulse-sequence"
_RESERVED = 1000  # sequence numbers set aside at a time, so that a restart never goes back and few pulses cost a write

_encode = msgspec.json.Encoder().encode


class Stamps:
    """What tells the pulses of a node apart: sequence, life and order counter."""

    def __init__(self, journal: Journal, life: OrderLife) -> None:
        self._journal = journal
        self._life = life
        self._sequence = self._ceiling = int(journal.fact(SEQUENCE_FACT) or b"0")

    def on(self, pulse: Pulse) -> Pulse:
        return replace(pulse, sequence=self._next(), life=self._life.noted(), counter=self._life.counter())

    def _next(self) -> int:
        self._sequence += 1
        if self._sequence > self._ceiling:
            self._ceiling = self._sequence + _RESERVED
            self._journal.set_aside(SEQUENCE_FACT, b"%d" % self._ceiling)
        return self._sequence


class Pulses:
    """`running` answers how many containers run here; None while that is not known."""

    def __init__(
        self,
        *,
        stamps: Stamps,
        time: NodeTime,
        accepting: Accepting,
        machine: Machine,
        key: IdentityKey,
        results: OrderResults,
        running: Callable[[], int | None],
        fleet: str,
        node: str,
    ) -> None:
        self._stamps = stamps
        self._time = time
        self._accepting = accepting
        self._machine = machine
        self._key = key
        self._results = results
        self._fleet = fleet
        self._node = node
        self.running = running

    def pulse(self, report: str) -> SignedPulse:
        """`report` is the digest of the newest report."""
        said = Pulse(
            fleet=self._fleet,
            node=self._node,
            sequence=0,
            at_s=self._time.now_s(),
            accepted=self._accepting.seen,
            manifest=self._accepting.in_force_digest,
            report=report,
            facts=replace(self._machine.facts(), containers=self.running()),
            results=self._results.told(),
            release=__version__,
            format=formats.NEWEST,
        )
        pulse = _encode(self._stamps.on(said))
        return SignedPulse(pulse, own_signature.armoured(self._key, pulse, PULSE_NAMESPACE))
