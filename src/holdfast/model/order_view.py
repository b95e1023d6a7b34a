"""An order as the hub keeps and shows it: who submitted it, how far it is, what became of it. Values only."""

from typing import Literal

from msgspec import Struct

from holdfast.model.order import OrderResult, SignedOrder

GENERATION = 1

# waiting: not fetched yet · delivered: its node has it, no result yet · expired: nobody came in time; whether a node
# that fetched it did it all the same is in the node's journal
OrderState = Literal["waiting", "delivered", "done", "failed", "refused", "expired"]


class OrderRecord(Struct, frozen=True, omit_defaults=True):
    """What lies in the ledger. `expired` and `result` may both be: the node was late, and its word still counts."""

    signed: SignedOrder
    by: str
    submitted_s: float
    expired: bool = False
    result: OrderResult | None = None


class OrderView(Struct, frozen=True, omit_defaults=True):
    node: str
    id: str
    action: str
    target: str
    state: OrderState
    by: str
    submitted_s: float
    expires_s: int
    attempt: int = 0
    result: OrderResult | None = None
    counter: int = 0  # who signs the next one takes a higher one


class OrdersAnswer(Struct, frozen=True):
    """Newest first."""

    orders: tuple[OrderView, ...]
    wire: int = GENERATION
