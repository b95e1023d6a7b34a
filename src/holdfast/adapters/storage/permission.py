"""The last look before data goes: at names, and at an order, which must say purge, exactly this data and node. Pure."""

import re

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.ids import is_name
from holdfast.model.order import VerifiedOrder

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def is_id(text: str) -> bool:
    """Of a checkpoint. None begins with a dot: those names are the storage's own."""
    return _ID.fullmatch(text) is not None


def check_id(text: str) -> str:
    if not is_id(text):
        raise Invalid(f"{text[:70]!r} is no name of a checkpoint", remedy="name it by letters and digits: a1b2")
    return text


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


def not_ours(why: str) -> NotPermitted:
    return NotPermitted(
        f"{why}; it is left alone",
        remedy="look at it, put a plain directory there or unmount it, then order it again",
        code="not_a_plain_directory",
    )
