"""`holdfast ps`: every applied service with its components, where it is placed, and what that node says of it."""

from argparse import Namespace
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli import fleet_view
from holdfast.cli.flags import Parser
from holdfast.cli.fleet_view import FleetView
from holdfast.cli.terminal import harmless
from holdfast.cli.testimony import Testimony, told
from holdfast.cli.toolbox import Toolbox
from holdfast.model.applied import content
from holdfast.model.fleet import Service
from holdfast.model.report import ContainerState
from holdfast.model.revision import Entry

DETAILS = """\
Status is running, stopped, unhealthy or unknown, as the node itself reports it, signed. A node that reports no
containers makes no claim, so its services are unknown. What runs without being placed there is marked as orphan.

examples:
  holdfast ps
  holdfast ps --json
"""

Row = dict[str, Any]


def declare(parser: Parser) -> None:
    """Takes nothing of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    rows = services(view)
    if args.json:
        box.terminal.say(msgspec.json.encode({"services": rows}).decode())
        return 0
    if not rows:
        box.terminal.remark("No service is applied; put one into services/ and run holdfast apply.")
    width = max((len(row["name"]) + len(row["component"]) for row in rows), default=0) + 1
    for row in rows:
        name = f"{row['name']}/{row['component']}"
        one = view.nodes.get(row["node"])
        word = _whose(row, one)
        mark = "  orphan" if row["orphan"] else ""
        box.terminal.say(harmless(f"{name:<{width}}  {row['status']:<9}  {row['node'] or '-'}  {word}{mark}"))
    return 0


def _whose(row: Row, one: Testimony | None) -> str:
    """The same as `verified` and `age_s` say: a node that is well has not thereby spoken of its services."""
    if one is None:
        return "not placed"
    return told(one) if row["verified"] or not one.verified else f"unverified: {row['node']} reports no containers"


def services(view: FleetView) -> list[Row]:
    rows: list[Row] = []
    placed: set[tuple[str, str]] = set()
    for address, entry in sorted(view.applied.table.entries.items()):
        if not address.startswith("service."):
            continue
        name = address.removeprefix("service.")
        node = entry.node if entry.node is not UNSET else ""
        placed.add((name, node))
        found = content(view.applied.contents, entry.digest, address)
        service = msgspec.json.decode(found, type=Service)
        rows += [_row(name, part.name, part.image, node, entry, view) for part in service.components]
    for node, one in sorted(view.nodes.items()):
        for container in one.report.containers if one.report is not None and not one.is_old else ():
            if (container.service, node) not in placed:
                rows.append(_orphan(container, one))
    return rows


def _row(name: str, component: str, image: str, node: str, entry: Entry, view: FleetView) -> Row:
    one = view.nodes.get(node)
    seen = _seen(one, name, component)
    return {
        "name": name,
        "component": component,
        "node": node or None,
        "status": seen.status if seen is not None else "unknown",
        "image": seen.image if seen is not None and seen.image else image,
        "epoch": entry.epoch,
        "verified": seen is not None,
        "age_s": round(one.age_s, 3) if one is not None and seen is not None else None,
        "orphan": False,
    }


def _seen(one: Testimony | None, service: str, component: str) -> ContainerState | None:
    """The worst of its replicas; None when the node makes no claim about any container, or made it on a better day."""
    if one is None or one.report is None or one.is_old or not one.report.containers:
        return None
    mine = [c for c in one.report.containers if (c.service, c.component) == (service, component)]
    if not mine:
        return ContainerState(service, component, "stopped")
    order = ("unhealthy", "stopped", "unknown", "running")
    return min(mine, key=lambda container: order.index(container.status))


def _orphan(container: ContainerState, one: Testimony) -> Row:
    return {
        "name": container.service,
        "component": container.component,
        "node": one.view.name,
        "status": container.status,
        "image": container.image,
        "epoch": container.epoch,
        "verified": True,
        "age_s": round(one.age_s, 3),
        "orphan": True,
    }
