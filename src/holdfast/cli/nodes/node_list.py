"""`holdfast node list`: every node with its status and the age of its signed report."""

from argparse import Namespace
from typing import Any

import msgspec
from msgspec.structs import asdict

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.tools import Toolbox
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.duration import aged
from holdfast.model.report import clamped
from holdfast.model.verified_report import VerifiedReport

DETAILS = """\
One line per node of the applied revision: name, roles, status (healthy, unhealthy, unknown), the revision it accepted,
its address, its last contact with the hub, and the age of its signed report. "signed by w1, 4 s ago": this machine
verified the report with the node's key, so the hub cannot forge it. A node is healthy only while its own signed report
says so; without a report, or with an old one, it is unknown, whatever the hub answers. Facts about a machine (memory,
disk) are claims of the node. A drained node gets no new services (holdfast node drain).

examples:
  holdfast node list
  holdfast node list --json
"""

STYLES = {"healthy": "green", "unhealthy": "red", "unknown": "yellow"}


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    found = [view.nodes[name] for name in sorted(view.nodes)]
    if args.json:
        document = {"nodes": [describe(one, view.applied) for one in found], "ready": view.ready}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not found:
        box.terminal.remark("There are no nodes. Add [[nodes]] to fleet.toml, then: holdfast apply")
    elif not view.ready:
        box.terminal.remark("The hub has just started and is still waiting for its nodes to check in.")
    rows = [_row(one, view.applied) for one in found]
    for line in tables.lines(rows, box.terminal, styles={2: tables.by(STYLES)}):
        box.terminal.say(line)
    return 0


def describe(one: VerifiedReport, applied: Applied) -> dict[str, Any]:
    """Stable keys; `verified`: `accepted`, `state` and `claimed` are from the node's own signed report."""
    view, pulse, report = one.view, one.pulse, one.report
    return {
        "name": view.name,
        "roles": list(view.roles),
        "status": one.status,
        "address": view.address,
        "age_s": view.age_s,
        "joined": view.joined,
        "revoked": view.revoked,
        "drained": is_drained(applied, view.name),
        "key": one.key or view.key,
        "recorded": bool(one.key) and recorded_key(applied, view.name) == one.key,
        "verified": one.verified,
        "verified_age_s": round(one.age_s, 3) if one.verified else None,
        "accepted": {"number": pulse.accepted.number, "digest": pulse.accepted.digest} if pulse else None,
        "state": report.state if report else None,
        "health": report.health if report else None,
        "version": report.version if report else None,
        "arch": report.arch if report else None,
        "parked": len(report.parked) if report else 0,
        "counter": pulse.counter if pulse else None,
        "skew_s": view.skew_s,
        "claimed": asdict(clamped(pulse.facts)) if pulse else None,
    }


def is_drained(applied: Applied, name: str) -> bool:
    entry = applied.table.entries.get(f"node.{name}")
    return entry is not None and entry.drained


def _row(one: VerifiedReport, applied: Applied) -> tuple[str, ...]:
    view = one.view
    drained = " (drained)" * is_drained(applied, view.name)
    accepted = f"revision {one.pulse.accepted.number}" if one.pulse else "-"
    return (
        view.name,
        "+".join(view.roles) + drained,
        one.shown,
        accepted,
        view.address or "-",
        f"{aged(view.age_s)} ago" if view.age_s is not None else "-",
        origin(one),
    )
