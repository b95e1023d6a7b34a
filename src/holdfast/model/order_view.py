"""An order as the hub stores and shows it: who submitted it, its state and its result. Values only."""

from typing import Literal

from msgspec import Struct

from holdfast.model.order import OrderResult, SignedOrder

GENERATION = 1
SIGN_AGAIN = frozenset({"other_life", "order_format_old", "resync_needed", "before_birth"})  # codes of refusals

# waiting: not fetched yet · delivered: its node has it, no result yet · expired: not fetched in time, or no result; the
# node's journal has whether a node that fetched it still ran it. A cancelled one is expired, with `cancelled_by`:
# clients of older releases read these states only.
OrderState = Literal["waiting", "delivered", "done", "failed", "refused", "expired"]


class OrderRecord(Struct, frozen=True, omit_defaults=True):
    """As stored in the ledger. `expired` and `result` may both be set: the node was late, but its result counts."""

    signed: SignedOrder
    by: str
    submitted_s: float
    expired: bool = False
    result: OrderResult | None = None
    cancelled_by: str = ""


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
    counter: int = 0  # the next signer uses a higher one
    sign_again: bool = False  # it was not run and never will be; with a new signature its node would judge it again
    cancelled_by: str = ""  # the operator who took it back before its node fetched it


class OrdersAnswer(Struct, frozen=True):
    """Newest first."""

    orders: tuple[OrderView, ...]
    wire: int = GENERATION
