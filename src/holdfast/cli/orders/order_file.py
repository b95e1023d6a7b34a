"""An order in a file: the signed bytes, the signatures so far, and the operators who can sign.

The text shown comes from the signed bytes. The trust beside them only gives helpful errors before the order is
sent; each node decides by its own trust.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.text import Block, block
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical
from holdfast.model.order import ACTIONS, Order, SignedOrder, decode_order
from holdfast.model.trust import Trust
from holdfast.ports.disk import Disk
from holdfast.trust import lives

FORMAT = "holdfast-order-1"
BYTES_MAX = 4 * 1024 * 1024
_AGAIN = "create it again with `holdfast order sign --node NODE --action ACTION -o FILE`"


class OrderFile(Struct, frozen=True):
    format: str
    signed: SignedOrder
    trust: bytes = b""  # canonical, for helpful refusals only

    @property
    def order(self) -> Order:
        return decode_order(self.signed.order)


def is_one(content: bytes) -> bool:
    """Whether this file is an order, not a saved plan. Verifies nothing."""
    return f'"{FORMAT}"'.encode() in content[:200]


def write(file: OrderFile) -> bytes:
    return msgspec.json.encode(file) + b"\n"


def of(signed: SignedOrder, trust: Trust) -> OrderFile:
    return OrderFile(FORMAT, signed, canonical.encode(trust))


def open_file(path: str, disk: Disk) -> OrderFile:
    content = disk.read(path, BYTES_MAX)
    if content is None:
        raise Invalid(f"{path} does not exist", remedy="sign an order first: holdfast order sign --help")
    return read(content)


def read(content: bytes) -> OrderFile:
    try:
        file = msgspec.json.decode(content, type=OrderFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Invalid(f"this is not a signed order: {trouble}", remedy=_AGAIN, code="not_an_order") from trouble
    if file.format != FORMAT:
        raise Invalid(
            f"this order has format {file.format!r}, this release reads {FORMAT!r}", remedy=_AGAIN, code="not_an_order"
        )
    order = file.order  # raises unless canonical
    if canonical.digest(file.signed.arguments) != order.arguments or order.action not in ACTIONS:
        raise Corrupt(
            "the arguments in this file are not the ones that are signed, or its action is unknown",
            remedy=f"delete the file and {_AGAIN}",
            code="order_damaged",
        )
    return file


def with_signature(file: OrderFile, armoured: str) -> OrderFile:
    """The same signature twice is still one."""
    if armoured in file.signed.signatures:
        return file
    return replace(file, signed=replace(file.signed, signatures=(*file.signed.signatures, armoured)))


def text(file: OrderFile) -> Block:
    """What a person reads before signing; all of it comes from the signed bytes."""
    order = file.order
    rule = ACTIONS[order.action]
    said = canonical.decode(file.signed.arguments, dict[str, str], "the arguments")
    lines = [
        f"{order.action} {order.target} on {order.node}: {rule.about} (grade {rule.grade})",
        *(f"  {name} = {value}" for name, value in sorted(said.items())),
        f"  valid once, from {rfc3339(order.not_before_s)} until {rfc3339(order.expires_s)}, counter {order.counter}",
        _life(order),
        f"  fleet {order.fleet[:12]}…, order {order.id}",
    ]
    return block(lines)


def _life(order: Order) -> str:
    """Which start of the agent it is for. The first signer and the node verify the pulse."""
    if order.pulse is None:
        return "  signed by an earlier release: its node asks for a new signature"
    seen = rfc3339(lives.read(order.pulse, order.fleet, order.node).at_s)
    if order.after_restart:
        return f"  may run after a restart of the agent, and again if the node's state is put back; pulse of {seen}"
    return f"  not after a restart of the agent; pulse of {seen}"
