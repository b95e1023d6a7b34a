"""The fleet that an order is for: its id, trust, nodes and counters, from a hub or offline."""

from argparse import Namespace

from msgspec import Struct

from holdfast.cli.fleet import session
from holdfast.cli.orders.order_file import OrderFile
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict, Invalid, NotPermitted
from holdfast.model import canonical, trust
from holdfast.model.applied import Applied
from holdfast.model.nearest import hint
from holdfast.model.order_view import OrderView
from holdfast.model.report import NodeFinding
from holdfast.model.trust import Trust
from holdfast.ports.hub_link import FleetLookout, FleetReader, HubReader, OrderDesk

ORDERS_SEEN = 200
ORDER_WAITS = "order_waits"  # a finding of agent/orders/refusing.py


class OrderFleet(Struct, frozen=True):
    fleet: str
    trust: Trust
    nodes: frozenset[str]

    def check_node(self, name: str) -> None:
        if name not in self.nodes:
            raise Invalid(
                f"there is no node {name!r} in this fleet",
                remedy=hint(name, self.nodes)
                + f"use one of: {', '.join(sorted(self.nodes)) or '(none is applied yet)'}",
                code="unknown_node",
            )


def reached(args: Namespace, box: Toolbox) -> HubReader | None:
    """A running hub, or a ledger directory, which knows the fleet but delivers no orders."""
    return box.hubs.reader(session.target_of_directory(args, box))


def desk(hub: HubReader | None, args: Namespace, box: Toolbox) -> OrderDesk:
    if isinstance(hub, OrderDesk):
        return hub
    target = session.target_of_directory(args, box)
    raise Invalid(
        f"orders are delivered only by a running hub, and {target} is a ledger directory",
        remedy="name the hub: --hub https://HOST:9555; to make one: holdfast hub init --help",
        code="no_hub",
    )


def applied_of(hub: HubReader | None, args: Namespace, box: Toolbox) -> Applied:
    """Verified against the heads seen before. A directory that is behind matters for plans, not for orders."""
    applied = session.heads(args, box).check(hub, adopt=True)
    if applied is None:
        raise Conflict(
            "nothing has been applied yet, so there is no node", remedy="holdfast apply", code="nothing_applied"
        )
    return applied


def of(applied: Applied) -> OrderFleet:
    return OrderFleet(applied.fleet_id, applied.trust, frozenset(applied.table.of_kind("node")))


def signed_results(hub: object, applied: Applied, box: Toolbox) -> dict[str, dict[str, str]]:
    """By node: the outcomes of its newest orders in its signed pulse. Other results from the hub are not proven."""
    if not isinstance(hub, FleetReader):
        return {}
    from holdfast.trust import reports

    found = reports.verify(hub.nodes(), applied, box.clock.now_s()).nodes
    return {name: one.pulse.results for name, one in found.items() if one.pulse is not None}


def waits(hub: object, applied: Applied, node: str, box: Toolbox) -> NodeFinding | None:
    """Why this node takes no order now, as it signed it."""
    if not isinstance(hub, FleetReader):
        return None
    from holdfast.trust import reports

    answer = hub.nodes_named((node,)) if isinstance(hub, FleetLookout) else hub.nodes()
    one = reports.verify(answer, applied, box.clock.now_s()).nodes.get(node)
    findings = one.report.findings if one is not None and one.report is not None and one.verified else ()
    return next((found for found in findings if found.code == ORDER_WAITS), None)


def is_verified(view: OrderView, results: dict[str, dict[str, str]]) -> bool:
    """An outcome never changes, so that an old pulse of the node proves it as well."""
    signed = results.get(view.node, {}).get(view.id)
    return view.result is not None and signed is not None and signed == view.result.outcome


def offline(args: Namespace, box: Toolbox) -> OrderFleet:
    """From the fleet directory and its lock alone. Its trust only names who could sign; nodes use their own."""
    lock = session.heads(args, box).lock()
    if lock is None:
        raise Invalid(
            f"{args.fleet} has no fleet.lock, so its fleet id is unknown",
            remedy="copy the fleet directory with its fleet.lock to this machine, or omit --counter and use a hub",
            code="no_lock",
        )
    declared = load(box.files.fleet(args.fleet))
    return OrderFleet(lock.fleet, trust.of(declared.operators, declared.thresholds), frozenset(declared.nodes))


def of_file(file: OrderFile, args: Namespace, box: Toolbox) -> OrderFleet:
    """From the directory if it has a lock, which must be of the same fleet. Else from the file, which is not proven."""
    order = file.order
    lock = session.heads(args, box).lock()
    if lock is not None and lock.fleet != order.fleet:
        raise NotPermitted(
            f"this order is for the fleet {order.fleet[:12]}…, but {args.fleet} is {lock.fleet[:12]}…",
            remedy="sign it with --fleet DIR, where DIR is the directory of its own fleet",
            code="other_fleet",
        )
    believed = canonical.decode(file.trust, Trust, "the trust beside the order")
    return OrderFleet(order.fleet, believed, frozenset({order.node}))
