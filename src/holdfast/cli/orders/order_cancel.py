"""`holdfast order cancel ID`: take an order back before its node has fetched it."""

from argparse import Namespace
from collections.abc import Sequence

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.orders import order_fleet
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.order_view import OrderView
from holdfast.ports.hub_link import OrderKeeper

LENGTH_MIN = 4  # characters of an id

DETAILS = """\
The hub drops an order that waits for its node, for example a restart of a service on a machine that is off. Operators
who could sign the order may cancel it, and the one who submitted it. An order that the node has fetched cannot be
cancelled (exit 5): it may run, or it is over.

The hub only delivers orders, and nodes do not ask whether one was cancelled. A hub that is not yours any more could
keep the order and deliver it until it expires; so could a copy of its ledger. If the hub restarted since the order was
submitted, the node may have fetched it before: then its result appears in order list.

examples:
  holdfast order list
  holdfast order cancel 3f9a1c
"""


def declare(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of an order, or its beginning as order list shows it")


def run(args: Namespace, box: Toolbox) -> int:
    desk = order_fleet.desk(order_fleet.reached(args, box), args, box)
    if not isinstance(desk, OrderKeeper):
        raise Invalid("this hub cannot cancel orders", remedy="upgrade the hub", code="not_built")
    view = _named(args.id, desk.orders("", order_fleet.ORDERS_SEEN))
    desk.cancel_order(view.id)
    if args.json:
        document = {"id": view.id, "node": view.node, "action": view.action, "target": view.target, "cancelled": True}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(f"Cancelled: the hub does not deliver {view.action} {view.target} to {view.node} any more.")
    return 0


def _named(id: str, views: Sequence[OrderView]) -> OrderView:
    if len(id) < LENGTH_MIN:
        text = f"{id!r} is too short for the beginning of an id"
        remedy = f"give at least {LENGTH_MIN} characters of one that `holdfast order list` shows"
        raise Invalid(text, remedy=remedy, code="not_found")
    found = [view for view in views if view.id.startswith(id.lower())]
    if len(found) != 1:
        what = (
            f"{len(found)} orders have an id that begins with {id[:40]!r}"
            if found
            else f"there is no order {id[:40]!r}"
        )
        raise Invalid(what, remedy="`holdfast order list` lists the orders", code="not_found")
    return found[0]
