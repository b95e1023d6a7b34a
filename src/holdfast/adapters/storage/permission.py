"""The last look at an order before data goes: it must say purge, exactly this data, exactly this node. Pure."""

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.ids import is_name
from holdfast.model.order import VerifiedOrder


def check_name(name: str) -> str:
    if not is_name(name):
        raise Invalid(f"{name[:60]!r} is no name of a data directory", remedy="name the service, for example web")
    return name


def check(name: str, node: str, proof: VerifiedOrder) -> None:
    """The gate decided before; this keeps a mistake above from becoming a loss below."""
    check_name(name)
    order = proof.order
    if (order.action, order.target, order.node) != ("purge", f"data.{name}", node):
        raise NotPermitted(
            f"an order to {order.action} {order.target} on {order.node} destroys nothing of data.{name} on {node}",
            remedy=f"holdfast order sign --node {node} --action purge --target data.{name} --submit",
            code="target_mismatch",
        )
