"""The last check before data is moved or deleted: names, and an order for exactly this data on this node. Pure."""

import re

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.ids import is_name
from holdfast.model.order import VerifiedOrder

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def is_id(text: str) -> bool:
    """Of a checkpoint. An id never starts with a dot: such names are reserved for the storage."""
    return _ID.fullmatch(text) is not None


def check_id(text: str) -> str:
    if not is_id(text):
        raise Invalid(f"{text[:70]!r} is not a checkpoint id", remedy="use letters and digits, for example a1b2")
    return text


def check_name(name: str) -> str:
    if not is_name(name):
        raise Invalid(f"{name[:60]!r} is not the name of a data directory", remedy="give a service, for example web")
    return name


def check(name: str, node: str, proof: VerifiedOrder, action: str = "purge") -> None:
    """The gate has decided already; this check prevents data loss by a mistake in the calling code."""
    check_name(name)
    order = proof.order
    if (order.action, order.target, order.node) != (action, f"data.{name}", node):
        raise NotPermitted(
            f"an order to {order.action} {order.target} on {order.node} does not allow to {action} data.{name} "
            f"on {node}",
            remedy=f"holdfast order sign --node {node} --action {action} --target data.{name} --submit",
            code="target_mismatch",
        )


def not_ours(why: str) -> NotPermitted:
    return NotPermitted(
        f"{why}; nothing was changed there",
        remedy="inspect it; replace it with a plain directory or unmount it, then send the order again",
        code="not_a_plain_directory",
    )
