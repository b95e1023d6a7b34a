"""The agent's write-ahead record (V-44): operations, their steps and results. Values only."""

from typing import Literal

from msgspec import Struct

from holdfast.model.order import OrderResult

Outcome = Literal["done", "failed", "compensated"]


class OrderUse(Struct, frozen=True):
    """Prevents that an order runs twice: written in the same transaction as its operation, before it acts."""

    id: str
    counter: int
    nonce: str
    expires_s: int


class Operation(Struct, frozen=True, omit_defaults=True):
    """An operation with several steps. `lane` is its service or node; a lane runs one operation at a time."""

    id: str
    kind: str
    lane: str
    begun_s: float
    arguments: dict[str, str] = {}
    order: str = ""  # id of the order that caused it, "" for the agent's own
    attempt: int = 0


class StepRecord(Struct, frozen=True):
    name: str
    at_s: float
    note: str = ""


class JournalEntry(Struct, frozen=True):
    """An operation with its steps so far; `result` is None while it is in progress."""

    operation: Operation
    steps: tuple[StepRecord, ...]
    outcome: Outcome | None
    result: OrderResult | None
