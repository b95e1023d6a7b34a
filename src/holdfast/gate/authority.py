"""The authority behind an action: none, a signed order, or the applied revision. Made from proofs only."""

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.order import Order, VerifiedOrder
from holdfast.model.proven_address import ProvenAddress


class Authority(Struct, frozen=True):
    """`order` is set when the authority is an order: it covers what the order names and nothing else. `address` is set
    when it is the accepted revision: it covers that address, its data and its containers."""

    grade: Grade | None
    order: Order | None = None
    revision: int = 0
    address: str = ""


UNSIGNED = Authority(None)  # also for what a hub asks without an operator's signature


def by_order(proof: VerifiedOrder) -> Authority:
    return Authority(proof.grade, proof.order)


def by_revision(proof: ProvenAddress, asked: str = "") -> Authority:
    """The authority of the accepted revision over one address: grade apply, or destroy if signatures of that grade
    approved what is `asked` for. Both were verified under this node's own trust."""
    return Authority("destroy" if asked in proof.approved else "apply", None, proof.revision, proof.address)
