"""The agent's durable store: operations, orders, facts, and what this agent created. Durable on return."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.journal import JournalEntry, Operation, OrderUse, Outcome, StepRecord
from holdfast.model.order import OrderResult


class Facts(Protocol):
    """Small values that survive a restart: the time floor, how often a hub asked, what was parked."""

    def set_aside(self, name: str, value: bytes) -> None: ...

    def fact(self, name: str) -> bytes | None: ...

    def facts(self, prefix: str) -> dict[str, bytes]:
        """All whose name begins with `prefix`, sorted by name; "" is every one."""
        ...

    def drop_fact(self, name: str) -> None:
        """Does nothing if it is not there."""
        ...


class Provenance(Protocol):
    """Which paths and names this agent created (W10)."""

    def made_by(self, path: str) -> str | None:
        """The operation that created this path or name; None if this agent did not create it."""
        ...

    def note_made(self, path: str, operation: str, scratch: bool) -> None: ...

    def is_scratch(self, path: str) -> bool: ...

    def forget_made(self, path: str) -> None: ...


class OrderLog(Protocol):
    """Which orders were used, and their results."""

    def use(self, use: OrderUse) -> bool:
        """Note an order that changes nothing. False, and nothing written, if its id, counter or nonce was used."""
        ...

    def used_counter(self, counter: int) -> bool: ...

    def highest_counter(self) -> int: ...

    def result_of(self, order: str) -> OrderResult | None:
        """The result of an order that ran on this node, however long ago its lease ended."""
        ...

    def unsent(self, limit: int) -> Sequence[OrderResult]:
        """Results that no hub has confirmed yet, oldest first."""
        ...

    def taken(self, orders: Sequence[str]) -> None:
        """A hub has confirmed these results; they are kept, and no longer sent."""
        ...


class Journal(Facts, Provenance, OrderLog, Protocol):
    def begin(self, operation: Operation, use: OrderUse | None = None, makes: Sequence[str] = ()) -> bool:
        """False, and nothing written, if that order id, counter or nonce was used before. Durable before acting.
        `makes` are names this operation is about to create; noted with it, so no created name is unknown (W10)."""
        ...

    def step(self, operation: str, name: str, at_s: float, note: str = "") -> None: ...

    def steps(self, operation: str, steps: Sequence[StepRecord]) -> None:
        """Several operations in one transaction and one flush; all of them or none."""
        ...

    def finish(self, operation: str, outcome: Outcome, result: OrderResult | None = None) -> None: ...

    def unfinished(self) -> Sequence[JournalEntry]: ...

    def entries(self, newest: int = 100) -> Sequence[JournalEntry]:
        """Newest first."""
        ...

    def check(self) -> Sequence[str]:
        """What is wrong with it, in sentences; empty when sound."""
        ...

    def close(self) -> None: ...
