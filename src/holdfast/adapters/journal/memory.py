"""A journal in memory, for tests and simulation. A simulated restart passes the same object on."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.journal import JournalEntry, Operation, OrderUse, Outcome, StepRecord
from holdfast.model.order import COUNTER_WINDOW, OrderResult


class MemoryJournal:
    def __init__(self) -> None:
        self._operations: dict[str, JournalEntry] = {}
        self._uses: dict[str, OrderUse] = {}
        self._counters: set[int] = set()
        self._nonces: set[str] = set()
        self._highest = 0
        self._taken: set[str] = set()
        self._facts: dict[str, bytes] = {}
        self._made: dict[str, tuple[str, bool]] = {}

    def begin(self, operation: Operation, use: OrderUse | None = None, makes: Sequence[str] = ()) -> bool:
        assert operation.id not in self._operations, "an operation begins once"
        if use is not None and not self.use(use):
            return False
        self._operations[operation.id] = JournalEntry(operation, (), None, None)
        self._made |= dict.fromkeys(makes, (operation.id, False))
        return True

    def use(self, use: OrderUse) -> bool:
        if use.id in self._uses or use.counter in self._counters or use.nonce in self._nonces:
            return False
        if use.counter <= self._highest - COUNTER_WINDOW:
            return False
        self._uses[use.id] = use
        self._counters.add(use.counter)
        self._nonces.add(use.nonce)
        self._highest = max(self._highest, use.counter)
        return True

    def step(self, operation: str, name: str, at_s: float, note: str = "") -> None:
        self.steps(operation, [StepRecord(name, at_s, note)])

    def steps(self, operation: str, steps: Sequence[StepRecord]) -> None:
        entry = self._operations[operation]
        self._operations[operation] = replace(entry, steps=(*entry.steps, *steps))

    def finish(self, operation: str, outcome: Outcome, result: OrderResult | None = None) -> None:
        entry = self._operations[operation]
        if entry.outcome is None:
            self._operations[operation] = replace(entry, outcome=outcome, result=result)

    def unfinished(self) -> Sequence[JournalEntry]:
        return [entry for entry in self._operations.values() if entry.outcome is None]

    def entries(self, newest: int = 100) -> Sequence[JournalEntry]:
        return list(reversed(self._operations.values()))[: max(newest, 0)]

    def result_of(self, order: str) -> OrderResult | None:
        found = [e.result for e in self._operations.values() if order and e.operation.order == order and e.result]
        return found[-1] if found else None

    def unsent(self, limit: int) -> Sequence[OrderResult]:
        waiting = [
            entry.result
            for entry in self._operations.values()
            if entry.result is not None and entry.operation.id not in self._taken
        ]
        return waiting[: max(limit, 0)]

    def taken(self, orders: Sequence[str]) -> None:
        said = set(orders) - {""}
        self._taken |= {e.operation.id for e in self._operations.values() if e.operation.order in said and e.result}

    def used_counter(self, counter: int) -> bool:
        return counter in self._counters

    def highest_counter(self) -> int:
        return self._highest

    def set_aside(self, name: str, value: bytes) -> None:
        self._facts[name] = value

    def fact(self, name: str) -> bytes | None:
        return self._facts.get(name)

    def facts(self, prefix: str) -> dict[str, bytes]:
        return {name: self._facts[name] for name in sorted(self._facts) if name.startswith(prefix)}

    def drop_fact(self, name: str) -> None:
        self._facts.pop(name, None)

    def made_by(self, path: str) -> str | None:
        return self._made[path][0] if path in self._made else None

    def note_made(self, path: str, operation: str, scratch: bool) -> None:
        self._made[path] = (operation, scratch)

    def is_scratch(self, path: str) -> bool:
        return path in self._made and self._made[path][1]

    def forget_made(self, path: str) -> None:
        self._made.pop(path, None)

    def check(self) -> Sequence[str]:
        return []

    def close(self) -> None:
        """Nothing to close."""
