"""The authority behind an action: none, a signed order, or the applied revision. Made from proofs only."""

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.order import Order, VerifiedOrder


class Authority(Struct, frozen=True):
    """`order` is set when the authority is an order: it covers what the order names and nothing else."""

    grade: Grade | None
    order: Order | None = None
    revision: int = 0


NOBODY = Authority(None)  # also for what a hub asks without an operator's signature


def by_order(proof: VerifiedOrder) -> Authority:
    return Authority(proof.grade, proof.order)


def by_revision(number: int, proven: Grade) -> Authority:
    """The authority of the accepted revision that brought this change; `proven` is the grade that trust/approval.py
    verified under this node's own trust, never what a hub recorded about it."""
    return Authority(proven, None, number)
