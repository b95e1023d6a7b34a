"""Which fleet an order is for, whom that fleet trusts, and how its node counts: asked of a hub, or known offline."""

from argparse import Namespace

import msgspec
from msgspec import Struct

from holdfast.cli import session
from holdfast.cli.flags import repeated
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model import trust
from holdfast.model.applied import Applied
from holdfast.model.order_view import OrderView
from holdfast.model.report import PULSE_NAMESPACE, Pulse
from holdfast.model.trust import Trust
from holdfast.ports.hub_link import FleetReader, HubReader, OrderDesk

ORDERS_SEEN = 200


class OrderFleet(Struct, frozen=True):
    fleet: str
    trust: Trust
    nodes: frozenset[str]

    def check_node(self, name: str) -> None:
        if name not in self.nodes:
            raise Invalid(
                f"there is no node {name!r} in this fleet",
                remedy=f"use one of: {', '.join(sorted(self.nodes)) or '(none is applied yet)'}",
                code="unknown_node",
            )


def hub_target(args: Namespace, box: Toolbox) -> str:
    directory = box.fleet_directory(args.fleet)  # opened for a hub that is named, too: a slip in --fleet is told as one
    return session.hub_target(args, None if args.hub else load(directory))


def reached(args: Namespace, box: Toolbox) -> HubReader | None:
    """A running hub, or a ledger directory, which knows the fleet but delivers nothing."""
    return box.hub(hub_target(args, box))


def desk(hub: HubReader | None, args: Namespace, box: Toolbox) -> OrderDesk:
    if isinstance(hub, OrderDesk):
        return hub
    raise Invalid(
        f"orders are delivered by a running hub, and {hub_target(args, box)} is a ledger directory",
        remedy="name the hub: --hub https://HOST:9555",
        code="no_hub",
    )


def applied_of(hub: HubReader | None, args: Namespace, box: Toolbox) -> Applied:
    """Verified against everything seen before; a directory that is behind matters to plans, not to orders."""
    applied = session.heads(args, box).check(hub, adopt=True)
    if applied is None:
        raise Conflict("nothing is applied yet, so there is no node", remedy="holdfast apply", code="nothing_applied")
    return applied


def of(applied: Applied) -> OrderFleet:
    names = (address[5:] for address in applied.table.entries if address.startswith("node."))
    return OrderFleet(applied.fleet_id, applied.trust, frozenset(names))


def word_of(hub: object, applied: Applied, box: Toolbox) -> dict[str, dict[str, str]]:
    """By node: what became of its newest orders, in its own signed word. What a hub says beside that is hearsay."""
    if not isinstance(hub, FleetReader):
        return {}
    from holdfast.cli.verified_report import hear

    heard = hear(hub.nodes(), applied, box.clock.now_s())
    return {name: one.pulse.results for name, one in heard.items() if one.pulse is not None}


def is_verified(view: OrderView, word: dict[str, dict[str, str]]) -> bool:
    """An outcome never changes, so that an old word of the node proves it as well."""
    said = word.get(view.node, {}).get(view.id)
    return view.result is not None and said is not None and said == view.result.outcome


def offline(args: Namespace, box: Toolbox) -> OrderFleet:
    """From the fleet directory and its lock alone. Its trust only says who could sign; nodes judge by their own."""
    lock = session.heads(args, box).lock()
    if lock is None:
        raise Invalid(
            f"{args.fleet} has no fleet.lock, so it does not say which fleet it is",
            remedy="copy the fleet directory with its fleet.lock to this machine, or leave out --counter and use a hub",
            code="no_lock",
        )
    declared = load(box.fleet_directory(args.fleet))
    return OrderFleet(lock.fleet, trust.of(declared.operators, declared.thresholds), frozenset(declared.nodes))


def next_counter(hub: OrderDesk, applied: Applied, node: str, args: Namespace, now_s: float) -> int:
    """One more than the node's signed word and every order on its way; a hub that hides some makes a dud, no more."""
    waiting = max((view.counter for view in hub.orders(node, ORDERS_SEEN)), default=0)
    try:
        used = _used(hub, applied, node, now_s)
    except HoldfastError as trouble:
        raise Conflict(
            f"what {node} said last is not proven ({trouble.message}), so its next counter is not known",
            remedy=f"holdfast node show {node}{repeated(args)}; or give the counter yourself: --counter N",
            code="counter_unknown",
        ) from trouble
    return max(used, waiting) + 1


def _used(hub: OrderDesk, applied: Applied, node: str, now_s: float) -> int:
    if not isinstance(hub, FleetReader):
        return 0
    from holdfast.cli.identities import identities
    from holdfast.trust import own_signature

    answer = hub.nodes()
    view = next((view for view in answer.nodes if view.name == node), None)
    if view is None or view.pulse is None:
        return 0  # it has not joined yet, and so has used none
    key = identities(answer, applied, now_s).keys.get(node)
    if key is None:
        return 0
    own_signature.verify(view.pulse.pulse, view.pulse.signature, PULSE_NAMESPACE, key)
    try:
        return msgspec.json.decode(view.pulse.pulse, type=Pulse).counter
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Invalid(f"its last word cannot be read: {trouble}", remedy="holdfast node list") from trouble
