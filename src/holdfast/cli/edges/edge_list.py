"""`holdfast edge list`: every public hostname with its edge and status."""

from argparse import Namespace
from typing import Any

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.status.edges.views import BROKEN_STATUS, EdgeView, views

DETAILS = """\
One line per public hostname of the applied revision: its service and component, its edge, the node the service runs
on, its status, and when its certificate expires. STATUS is from the signed report of the edge:
  live         the edge serves the hostname
  waiting      for the backend, the DNS name or the certificate
  failed       a step failed
  unreachable  the edge has the route, but the backend does not answer; visitors get an error
  held         the service was stopped by an order; visitors get an error
  down         no container of the component works, as its node reports or the edge was answered;
               visitors get an error
  moving       the route still leads to the node where the service was
  standby      the route leads to a standby node
  leaving      the hostname is no longer applied; the edge still has the route
  missing      the edge has no such route
  unknown      the edge does not report
holdfast edge status shows more.

examples:
  holdfast edge list
  holdfast edge list --json
"""

HEADS = ("HOSTNAME", "SERVICE", "COMPONENT", "EDGE", "NODE", "STATUS", "CERTIFICATE EXPIRES")
STYLES = {"live": "green", **dict.fromkeys(BROKEN_STATUS, "red")}
STATUS_AT = HEADS.index("STATUS")


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    found = views(view.applied, view.nodes)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"edges": [document(one) for one in found]}).decode())
        return 0
    if not found:
        box.terminal.remark("No route is public. Set public = true on a route of a service, then: holdfast apply")
        return 0
    for line in tables.lines([_cells(one) for one in found], box.terminal, HEADS, {STATUS_AT: tables.by(STYLES)}):
        box.terminal.say(line)
    return 0


def document(one: EdgeView) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them."""
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
    return one.hostname, one.service, one.component, one.edge or "-", node, one.status, expires(one) or "-"
