"""`holdfast ps`: every container of every applied service, as its node reports it."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli import tables
from holdfast.cli.backups import drill_view
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.backup_report import BackupStates
from holdfast.model.duration import aged
from holdfast.model.image_name import short
from holdfast.model.report import ContainerState
from holdfast.model.revision import Entry
from holdfast.model.verified_report import VerifiedReport
from holdfast.status.edges import views as edge_views

DETAILS = """\
STATUS is running, starting, restarting, unhealthy, stopped, held or unknown, from the node's signed report. starting:
its health is not known yet. restarting: it ended more than once within ten minutes and was started again. held: an
order stopped the service. unknown: podman of the node, or the node itself, does not answer. With --json this is
"state"; "status" has only running, stopped, unhealthy and unknown. RESTARTS counts since the agent of the node knows
the container; LAST EXIT is the exit code of its last process that ended, with oom if the kernel killed it because its
memory limit was reached. A container that runs where its service is not placed is marked (orphan), and a service that
runs in place of a silent node (standby), and one that serves until its new node does (moving). (unconfirmed): its
machine booted, and the node started it without an answer of the hub. PROVEN is the age of the last drill that verified
a backup of the service; - if nothing of it is backed up. REPORT names the node that signed the report, and its age.
With names, only those services are shown. If the edge reports a hostname live, PORTS shows its URL; otherwise it shows
the step that is missing. holdfast edge status shows more.

examples:
  holdfast ps
  holdfast ps web db
  holdfast ps --json
"""

STYLES = {"running": "green", "stopped": "red", "unhealthy": "red", "restarting": "red", "starting": "yellow"}
HEADS = ("SERVICE", "STATUS", "NODE", "IMAGE", "PORTS", "UP", "RESTARTS", "LAST EXIT", "DEPLOYMENT", "PROVEN", "REPORT")
DEPLOYMENT_SHOWN = 8

Row = dict[str, Any]


def declare(parser: Parser) -> None:
    parser.add_argument("services", metavar="SVC", nargs="*", help="only these services (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    rows = _only(services(view), args.services, view)
    routes = edge_views.edge_routes(view.applied, view.nodes)
    for row in rows:
        mine = [one for one in routes.get(row["name"], []) if one.component == row["component"]]
        row["urls"] = [f"https://{one.hostname}/" for one in mine if one.is_public]
        row["not_public"] = {one.hostname: one.missing_step for one in mine if not one.is_public}
        _prove(row, view.nodes.get(row["node"]))
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"services": rows}).decode())
        return 0
    if not rows:
        box.terminal.remark("No service is applied. Add services/NAME.toml, then: holdfast apply")
        return 0
    cells = [_cells(row, view.nodes.get(row["node"]), box.clock.now_s()) for row in rows]
    for line in tables.lines(cells, box.terminal, HEADS, {1: tables.by(STYLES)}):
        box.terminal.say(line)
    return 0


def _prove(row: Row, one: VerifiedReport | None) -> None:
    """Of its service, as its node reports it."""
    section = one.section(BackupStates) if one is not None else None
    drill = drill_view.of(one, row["name"]) if one is not None else None
    row["backed_up"] = section is not None and any(state.service == row["name"] for state in section.backups)
    row["proven_s"] = drill.proven_s if drill is not None else 0.0
    row["last_proven"] = rfc3339(drill.proven_s) if drill is not None and drill.proven_s else None


def _only(rows: list[Row], asked: Sequence[str], view: FleetView) -> list[Row]:
    """Includes services that run on a node without being applied."""
    names = {name.removeprefix("service.") for name in asked}
    known = {row["name"] for row in rows if row["name"]} | view.applied.table.of_kind("service").keys()
    for name in sorted(names - known):
        raise fleet_view.no_service(name, known, "in the applied revision, and no node has a container of it")
    return [row for row in rows if row["name"] in names] if names else rows


# ---- for people


def _cells(row: Row, one: VerifiedReport | None, now_s: float) -> tuple[str, ...]:
    component = f"/{row['component']}" if row["component"] else ""  # a foreign container has none
    replica = f" {row['replica']}" if row["replica"] else ""
    marks = "".join(f" ({mark})" for mark in ("standby", "orphan", "moving", "unconfirmed") if row[mark])
    up = aged(max(0.0, now_s - row["started_s"])) if row["started_s"] and row["status"] != "stopped" else "-"
    return (
        f"{row['name']}{component}{replica}{marks}",
        row["state"],
        row["node"] or "-",
        short(row["image"]),
        _reached(row),
        up,
        str(row["restarts"]),
        row["last_exit"] or "-",
        row["deployment"][:DEPLOYMENT_SHOWN] or "-",
        _proven(row, now_s),
        _whose(row, one),
    )


def _proven(row: Row, now_s: float) -> str:
    if not row["backed_up"]:
        return "-"
    return f"{aged(max(now_s - row['proven_s'], 0.0))} ago" if row["proven_s"] else drill_view.NEVER


def _reached(row: Row) -> str:
    """URLs or ports, and for each hostname that is not live the step that is missing."""
    lacking: dict[str, str] = row["not_public"]
    is_one = len(lacking) + len(row["urls"]) == 1
    closed = [f"not public: {step}" if is_one else f"{name} not public: {step}" for name, step in lacking.items()]
    return ", ".join([*(row["urls"] or row["ports"]), *closed]) or "-"


def _whose(row: Row, one: VerifiedReport | None) -> str:
    """The same as `verified` and `age_s`: a healthy node may still report no containers."""
    if one is None:
        return "not placed"
    if row["verified"] or not one.verified:
        return origin(one)
    why = (
        f"no contact with {row['node']} for {aged(one.age_s)}"
        if _is_past(one)
        else f"{row['node']} reports no containers"
    )
    return f"unverified: {why}"


# ---- for programs


def services(view: FleetView) -> list[Row]:
    rows: list[Row] = []
    placed: dict[tuple[str, str], set[str]] = {}  # components by service and node
    for address, entry in sorted(view.applied.table.entries.items()):
        if not address.startswith("service."):
            continue
        name = address.removeprefix("service.")
        node = entry.node if entry.node is not UNSET else ""
        service = view.applied.service(name)
        placed[name, node] = {part.name for part in service.components}
        for part in service.components:
            rows += _rows(name, part.name, part.image, node, entry, view)
    for node, one in sorted(view.nodes.items()):
        for container in one.report.containers if one.report is not None and not _is_past(one) else ():
            if container.component not in placed.get((container.service, node), ()):
                moving = _is_moving(container, node, view)
                orphan = not (moving or _stands_in(one, container.service))
                rows.append(_row(container, one, node, container.image, orphan=orphan) | {"moving": moving})
    return rows


def _rows(name: str, component: str, image: str, node: str, entry: Entry, view: FleetView) -> list[Row]:
    """One row per container; one row if there is none, or none is reported."""
    one = view.nodes.get(node)
    seen = _seen(one, name, component)
    if not seen:
        status = "stopped" if seen is not None else "unknown"
        none = ContainerState(name, component, status, image, entry.epoch)  # type: ignore[arg-type]
        return [_row(none, one, node, image, verified=seen is not None)]
    return [_row(_as_written(each, entry, one), one, node, image, each.image, orphan=each.orphan) for each in seen]


def _seen(one: VerifiedReport | None, service: str, component: str) -> list[ContainerState] | None:
    """None if the node does not report containers, or its report is old."""
    if one is None or one.report is None or _is_past(one):
        return None
    if not (one.report.containers or one.report.runtime or one.report.services):
        return None
    mine = [c for c in one.report.containers if (c.service, c.component) == (service, component)]
    return sorted(mine, key=lambda container: (container.orphan, container.replica, container.started_s))


def _as_written(container: ContainerState, entry: Entry, one: VerifiedReport | None) -> ContainerState:
    """Replace the image digest that the runtime reports by the image name in the service file: the applied one, or the
    one of the deployment that still serves."""
    name, _, digest = container.image.partition("@sha256:")
    written = [image for image, resolved in entry.images.items() if digest and resolved.endswith(digest)]
    for state in one.report.services if one is not None and one.report is not None and not written else ():
        if (state.service, state.serving) == (container.service, container.deployment):
            written = [image for image in state.images if image.rpartition(":")[0] == name]
    return replace(container, image=written[0]) if len(written) == 1 else container


def _is_past(one: VerifiedReport) -> bool:
    """Whether the report is too old to say what runs now."""
    return one.is_old or one.status == "unhealthy"


def _stands_in(one: VerifiedReport, service: str) -> bool:
    states = one.report.services if one.report is not None else ()
    return any(state.service == service and state.standby for state in states)


def _is_moving(container: ContainerState, node: str, view: FleetView) -> bool:
    """It serves where its service was, until that works on its new node."""
    entry = view.applied.table.entries.get(f"service.{container.service}")
    home = "" if entry is None or entry.node is UNSET else entry.node
    return not container.orphan and home not in ("", node) and not _stands_in(view.nodes[node], container.service)


def _row(
    container: ContainerState,
    one: VerifiedReport | None,
    node: str,
    image: str,
    runs: str = "",
    orphan: bool = False,
    verified: bool = True,
) -> Row:
    return {
        "name": container.service,
        "component": container.component,
        "node": node or None,
        "status": container.status,
        "state": _state(container, one),
        "image": container.image or image,
        "digest": (runs or container.image).partition("@")[2],
        "epoch": container.epoch,
        "verified": verified,
        "age_s": round(one.age_s, 3) if one is not None and verified else None,
        "orphan": orphan,
        "held": _is_held(one, container.service),
        "moving": False,
        "standby": one is not None and _stands_in(one, container.service),
        "unconfirmed": _is_unconfirmed(one, container.service),
        "id": container.id,
        "pid": container.pid,
        "ports": list(container.ports),
        "replica": container.replica,
        "deployment": container.deployment,
        "started": rfc3339(container.started_s) if container.started_s else None,
        "started_s": container.started_s,
        "restarts": container.restarts,
        "last_exit": container.last_exit,
    }


def _is_unconfirmed(one: VerifiedReport | None, service: str) -> bool:
    found = one.report.findings if one is not None and one.report is not None and not one.is_old else ()
    return any((finding.code, finding.address) == ("unconfirmed", f"service.{service}") for finding in found)


def _state(container: ContainerState, one: VerifiedReport | None) -> str:
    """`status`, or more exactly: starting, restarting, held."""
    if container.status == "stopped" and _is_held(one, container.service):
        return "held"
    return container.state or container.status


def _is_held(one: VerifiedReport | None, service: str) -> bool:
    states = one.report.services if one is not None and one.report is not None and not one.is_old else ()
    return any(state.service == service and state.phase == "held" for state in states)
