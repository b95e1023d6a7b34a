"""By whose word something is done: nobody's, an order's, or the applied revision's. Made from proofs only."""

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.order import Order, VerifiedOrder


class Authority(Struct, frozen=True):
    """`order` is set when the word was an order: it is good for what it names and for nothing else."""

    grade: Grade | None
    order: Order | None = None
    revision: int = 0


NOBODY = Authority(None)  # also whatever a hub says by itself


def by_order(proof: VerifiedOrder) -> Authority:
    return Authority(proof.grade, proof.order)


def by_revision(number: int, proven: Grade) -> Authority:
    """Of the accepted revision whose delta this is; `proven` is what trust/approval.py found its signatures to carry
    under this node's own trust, never what a hub recorded about it."""
    return Authority(proven, None, number)
