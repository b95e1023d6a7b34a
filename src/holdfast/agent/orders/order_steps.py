"""The steps of an order in the journal: after a crash the same order goes on behind them."""

from holdfast.agent.keeper import OrderRun
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal


class OrderSteps:
    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def now_s(self) -> float:
        return self._clock.now_s()

    def did(self, run: OrderRun, name: str, note: str = "") -> None:
        self._journal.step(run.operation.id, name, self.now_s(), note)
