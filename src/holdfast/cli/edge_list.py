"""`holdfast edge list`: every public hostname, which edge answers for it, and how that is."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.cli import fleet_view
from holdfast.cli.flags import Parser
from holdfast.cli.terminal import Terminal, harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.status.edges.views import EdgeView, views

DETAILS = """\
One line per public hostname of the applied revision: its service and component, the edge that answers for it, the node
the service runs on, how it is, and when its certificate expires. Status is what the edge itself says, signed: live,
waiting (for its backend, its name or its certificate), failed; unreachable if the edge has the route and its backend
does not answer, so that visitors get an error; moving while it still leads to where the service was, standby while it
leads to a node that stands in, leaving if it is not applied any more, missing if the edge has no such route, and
unknown if the edge is silent. holdfast edge status says more.

examples:
  holdfast edge list
  holdfast edge list --json
"""

HEADS = ("HOSTNAME", "SERVICE", "COMPONENT", "EDGE", "NODE", "STATUS", "CERTIFICATE EXPIRES")
STYLES = {"live": "green", **dict.fromkeys(("failed", "unreachable", "missing", "not on an edge"), "red")}
STATUS_AT = HEADS.index("STATUS")


def declare(parser: Parser) -> None:
    """Takes nothing of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    found = views(view.applied, view.nodes)
    if args.json:
        box.terminal.say(msgspec.json.encode({"edges": [document(one) for one in found]}).decode())
        return 0
    if not found:
        box.terminal.remark("No route is public; set public = true on a route of a service and apply.")
        return 0
    for line in aligned([_cells(one) for one in found], box.terminal):
        box.terminal.say(line)
    return 0


def document(one: EdgeView) -> dict[str, Any]:
    """Every key, also where it is empty: scripts rely on them."""
    return {
        "hostname": one.hostname,
        "service": one.service,
        "component": one.component,
        "edge": one.edge,
        "node": one.node,
        "status": one.status,
        "certificate_expires": expires(one),
        "verified": one.edge_report is not None and one.edge_report.verified,
        "age_s": one.age_s,
    }


def expires(one: EdgeView) -> str | None:
    certificate = one.certificate
    return rfc3339(certificate.expires_s) if certificate is not None and certificate.expires_s else None


def _cells(one: EdgeView) -> tuple[str, ...]:
    node = f"{one.state.node} for {one.node}" if one.state is not None and one.stands_in else one.node
    cells = (one.hostname, one.service, one.component, one.edge or "-", node, one.status, expires(one) or "-")
    return tuple(harmless(cell) for cell in cells)


def aligned(rows: Sequence[tuple[str, ...]], terminal: Terminal) -> list[str]:
    table = [HEADS, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(HEADS))]
    lines = []
    for row in table:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        style = "bold" if row is HEADS else STYLES.get(row[STATUS_AT], "yellow")
        cells[STATUS_AT] = terminal.paint(style, cells[STATUS_AT])
        lines.append("  ".join(cells).rstrip())
    return lines
