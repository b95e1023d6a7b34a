"""The agent's durable memory of what it is doing. Every method that writes is on the disk when it returns."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.journal import JournalEntry, Operation, OrderUse, Outcome, StepRecord
from holdfast.model.order import OrderResult


class Journal(Protocol):
    def begin(self, operation: Operation, use: OrderUse | None = None, makes: Sequence[str] = ()) -> bool:
        """False, and nothing written, if that order id, counter or nonce was used before. Durable before acting.
        `makes` are names this operation is about to make: noted with it, so that none is ever made unknown (W10)."""
        ...

    def use(self, use: OrderUse) -> bool:
        """The same without an operation, for an order that changes nothing and leaves nothing to go on with."""
        ...

    def step(self, operation: str, name: str, at_s: float, note: str = "") -> None: ...

    def steps(self, operation: str, steps: Sequence[StepRecord]) -> None:
        """Several at once, for the price of one flush; all of them or none."""
        ...

    def finish(self, operation: str, outcome: Outcome, result: OrderResult | None = None) -> None: ...

    def unfinished(self) -> Sequence[JournalEntry]: ...

    def entries(self, newest: int = 100) -> Sequence[JournalEntry]:
        """Newest first."""
        ...

    def result_of(self, order: str) -> OrderResult | None:
        """What became of an order that was run here, however long ago its lease ended."""
        ...

    def unsent(self, limit: int) -> Sequence[OrderResult]:
        """Results no hub has confirmed yet, oldest first."""
        ...

    def taken(self, orders: Sequence[str]) -> None:
        """A hub has these results; they are kept, and no longer sent."""
        ...

    def used_counter(self, counter: int) -> bool: ...

    def used_nonce(self, nonce: str) -> bool: ...

    def highest_counter(self) -> int: ...

    def set_aside(self, name: str, value: bytes) -> None:
        """A small fact that must survive: the time floor, how often a hub asked, what was parked."""
        ...

    def fact(self, name: str) -> bytes | None: ...

    def facts(self, prefix: str) -> dict[str, bytes]:
        """All whose name begins so, sorted by name; "" is every one."""
        ...

    def drop_fact(self, name: str) -> None:
        """Nothing if it is not there."""
        ...

    def made_by(self, path: str) -> str | None:
        """The operation that made this path or name; None if it was not made here (W10)."""
        ...

    def note_made(self, path: str, operation: str, scratch: bool) -> None: ...

    def is_scratch(self, path: str) -> bool: ...

    def forget_made(self, path: str) -> None: ...

    def check(self) -> Sequence[str]:
        """What is wrong with it, in sentences; empty when sound."""
        ...

    def close(self) -> None: ...
