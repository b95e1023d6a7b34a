"""The fleet as a command sees it: the applied revision and the reports of its nodes, both verified."""

from argparse import Namespace
from collections.abc import Iterable

from msgspec import Struct

from holdfast.cli.flags import repeated
from holdfast.cli.fleet import session
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.applied import Applied
from holdfast.model.nearest import hint
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.hub_link import FleetKeeper, FleetReader, HubReader
from holdfast.trust import reports


class FleetView(Struct, frozen=True):
    """`keeper` is None for a ledger directory: no node checks in there."""

    target: str
    hub: HubReader
    applied: Applied
    nodes: dict[str, VerifiedReport]
    ready: bool
    keeper: FleetKeeper | None


def look(args: Namespace, box: Toolbox) -> FleetView:
    target, hub = reached(args, box)
    applied = session.heads(args, box).check(hub, adopt=True)
    if applied is None:
        raise session.nothing_applied(target)
    if not isinstance(hub, FleetReader):
        return FleetView(target, hub, applied, reports.none(applied), True, None)
    answer = hub.nodes()
    nodes = reports.verify(answer, applied, box.clock.now_s()).nodes
    return FleetView(target, hub, applied, nodes, answer.ready, hub if isinstance(hub, FleetKeeper) else None)


def reached(args: Namespace, box: Toolbox) -> tuple[str, HubReader]:
    target = session.target_of_directory(args, box)
    hub = box.hubs.reader(target)
    if hub is None:
        raise session.no_ledger(target, args, box)
    return target, hub


def keeper(view: FleetView, what: str) -> FleetKeeper:
    if view.keeper is None:
        raise no_hub(what, view.target)
    return view.keeper


def no_hub(what: str, target: str) -> Invalid:
    return Invalid(
        f"{what} only by a running hub, and {target} is a ledger directory",
        remedy="name the hub: --hub https://HOST:9555; to make one: holdfast hub init --help",
        code="no_hub",
    )


def no_service(name: str, known: Iterable[str], where: str = "in the applied revision") -> Invalid:
    """The error names the nearest service names, and the existing ones."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name, names, n=3)
    near = f"did you mean {' or '.join(close)}? " if close else ""
    return Invalid(
        f"there is no service {name!r} {where}",
        remedy=f"{near}services are: {', '.join(names[:20]) or 'none; holdfast apply'}",
        code="not_applied",
    )


def node(view: FleetView, name: str, args: Namespace) -> VerifiedReport:
    found = view.nodes.get(name)
    if found is None:
        known = ", ".join(sorted(view.nodes)) or "none"
        raise Invalid(
            f"there is no node {name!r} in the applied revision (nodes are: {known})",
            remedy=hint(name, view.nodes)
            + "check the name; to add a node, write it under [[nodes]] in fleet.toml, then: "
            f"holdfast apply{repeated(args)}",
            code="unknown_node",
        )
    return found
