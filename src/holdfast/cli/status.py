"""`holdfast status`: the applied revision, the health of the nodes, and every finding."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli import fleet_view, session, show_finding
from holdfast.cli.copies import copies
from holdfast.cli.edge_list import expires
from holdfast.cli.flags import Parser
from holdfast.cli.node_list import describe
from holdfast.cli.terminal import harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.duration import aged
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.verified_report import VerifiedReport
from holdfast.planning.protection import Unprotected, unprotected
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.status import nodes as node_findings
from holdfast.status.edges import views as edge_views
from holdfast.status.edges.views import EdgeView
from holdfast.trust import reports

DETAILS = """\
Shows the applied revision, quarantined resources, the health of the nodes, the number of public hostnames, every
service that is not as applied (with the version that serves and the step that failed), every public route and
certificate with a problem, the volumes that nothing protects, and every other finding with its code, age and remedy.
Reports of nodes are verified on this machine; an old or forged report is a finding too.

examples:
  holdfast status
  holdfast status --hub https://hub.example.com:9555 --json
"""


VOLUMES_SHOWN = 10  # --json has all of them


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    _, hub = fleet_view.reached(args, box)
    found = hub.status()
    applied, trouble = _applied(hub, args, box)
    nodes, ready = _nodes(hub, applied, box)
    own = [*trouble, *node_findings.doubts(nodes)]
    if applied is not None:
        now_s = box.clock.now_s()
        own += node_findings.unrecorded(nodes, applied, now_s, rfc3339)
        own += node_findings.not_as_applied(nodes, applied, now_s)
        own += node_findings.not_public(nodes, applied, now_s)
    findings = node_findings.merged(found.findings, own)
    volumes = unprotected(applied) if applied is not None else ()
    if args.json:
        document = _document(found, nodes, applied, findings, ready)
        document["unprotected"] = msgspec.to_builtins(volumes)
        box.terminal.say(msgspec.json.encode(document).decode())
        return 0
    box.terminal.say(harmless(_served(found)))
    if found.head != found.serving:
        box.terminal.say(f"The ledger holds revision {found.head.number}; the hub serves it after a restart.")
    if nodes and isinstance(hub, FleetReader):
        box.terminal.say(harmless(_summary(nodes, ready)))
    if applied is not None and (public := edge_views.views(applied, nodes)):
        box.terminal.say(harmless(_public(public)))
    if volumes:
        box.terminal.say(harmless(_unprotected(volumes)))
    for finding in findings:
        box.terminal.say(show_finding.text(finding, box.terminal, _since(finding)))
    return 0


def _applied(hub: HubReader, args: Namespace, box: Toolbox) -> tuple[Applied | None, list[StatusFinding]]:
    """Verified if it comes from a hub. If that fails, it is a finding, and no report is used."""
    if not isinstance(hub, FleetReader):
        return hub.applied(), []
    try:
        return session.heads(args, box).check(hub, adopt=True), []
    except HoldfastError as trouble:
        return None, [StatusFinding(trouble.code, "fatal", trouble.message, trouble.remedy)]


def _nodes(hub: HubReader, applied: Applied | None, box: Toolbox) -> tuple[dict[str, VerifiedReport], bool]:
    if applied is None:
        return {}, True
    if not isinstance(hub, FleetReader):
        return reports.none(applied), True
    answer = hub.nodes()
    return reports.verify(answer, applied, box.clock.now_s()).nodes, answer.ready


def _document(
    found: HubStatus,
    nodes: dict[str, VerifiedReport],
    applied: Applied | None,
    findings: list[StatusFinding],
    ready: bool,
) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(found)
    document["findings"] = [finding_of(finding) for finding in findings]
    document["nodes"] = [describe(nodes[name], applied) for name in sorted(nodes)] if applied is not None else []
    document["services"] = _services(nodes, applied) if applied is not None else []
    document["copies"] = msgspec.to_builtins(copies(nodes, applied)) if applied is not None else []
    document["ready"] = ready
    return document


def _services(nodes: dict[str, VerifiedReport], applied: Applied) -> list[dict[str, Any]]:
    """M-44: where each service is, and which edges carry its hostnames."""
    routes = edge_views.edge_routes(applied, nodes)
    return [
        {
            "name": name,
            "node": entry.node if entry.node is not UNSET else None,
            "edge_routes": edge_routes(routes, name),
        }
        for address, entry in sorted(applied.table.entries.items())
        if (name := address.removeprefix("service.")) != address
    ]


def edge_routes(routes: dict[str, list[EdgeView]], service: str) -> list[dict[str, Any]]:
    return [
        {"hostname": one.hostname, "edge_node": one.edge, "cert_expires": expires(one), "status": one.status}
        for one in routes.get(service, [])
    ]


def finding_of(finding: StatusFinding) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them."""
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "address": finding.address,
        "age_s": finding.age_s,
    }


def _since(finding: StatusFinding) -> str:
    return f" ({aged(finding.age_s)})" if finding.age_s >= 1 else ""


def _served(found: HubStatus) -> str:
    counted = {kind: count for kind, count in sorted(found.resources.items()) if kind not in ("fleet", "trust")}
    kinds = (
        ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counted.items()) or "no nodes or services"
    )
    source = "" if found.source == "ledger" else f" (from {found.source})"
    return f"Revision {found.serving.number} is applied{source}: {kinds}."


def _unprotected(found: Sequence[Unprotected]) -> str:
    named = [f"{one.service}/{one.volume}" for one in found[:VOLUMES_SHOWN]]
    if len(found) > VOLUMES_SHOWN:
        named.append(f"{len(found) - VOLUMES_SHOWN} more")
    return f"Volumes that nothing protects (no backups are taken yet; each has one copy): {', '.join(named)}"


def _public(found: list[EdgeView]) -> str:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.status] = counts.get(one.status, 0) + 1
    return f"Public hostnames: {', '.join(f'{n} {state}' for state, n in sorted(counts.items()))}; holdfast edge status"


def _summary(nodes: dict[str, VerifiedReport], ready: bool) -> str:
    counts: dict[str, int] = {}
    for one in nodes.values():
        counts[one.shown] = counts.get(one.shown, 0) + 1
    verified = sum(1 for one in nodes.values() if one.verified)
    warming = "" if ready else "; the hub has just started and waits for reports"
    return (
        f"Nodes: {', '.join(f'{n} {state}' for state, n in sorted(counts.items()))}; "
        f"{verified} report{'s' * (verified != 1)} verified{warming}"
    )
