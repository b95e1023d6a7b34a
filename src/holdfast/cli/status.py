"""`holdfast status`: what the hub serves, how the nodes are, and everything that is wrong."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli import edge_view, fleet_view, session, show_finding
from holdfast.cli.copies import copies
from holdfast.cli.edge_list import expires
from holdfast.cli.edge_view import EdgeView
from holdfast.cli.flags import Parser
from holdfast.cli.node_list import describe
from holdfast.cli.terminal import harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.cli.verified_report import VerifiedReport, aged, hear, recorded_key, unheard
from holdfast.errors import HoldfastError
from holdfast.hub import edge_findings, service_findings
from holdfast.hub.alerts.traffic_codes import OVER
from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.invite import decode_invite
from holdfast.model.report import Report
from holdfast.planning.protection import Unprotected, unprotected
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.trust.enrolment import RECORD_S

DETAILS = """\
Served revision, quarantined resources, the health of the nodes, how many hostnames are public, every service that is
not as applied (what is applied, what serves, which step failed), every public route and certificate that is not as it
should be, the volumes that nothing protects, and every other finding with its code, age and remedy. What nodes say is
verified on this machine: a hub that shows old or forged words of a node is a finding itself.

examples:
  holdfast status
  holdfast status --hub https://hub.example.com:9555 --json
"""


DERIVED = frozenset({"edge_route_missing", "edge_route_waiting", "edge_route_leaving"})  # from reports, by nobody else


VOLUMES_SHOWN = 10  # --json has all of them


def declare(parser: Parser) -> None:
    """Takes nothing of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    _, hub = fleet_view.reached(args, box)
    found = hub.status()
    applied, trouble = _applied(hub, args, box)
    nodes, ready = _nodes(hub, applied, box)
    own = [*trouble, *doubts(nodes)]
    if applied is not None:
        own += unrecorded(nodes, applied, box.clock.now_s())
        own += not_as_applied(nodes, applied, box.clock.now_s())
        own += not_public(nodes, applied, box.clock.now_s())
    findings = merged(found.findings, own)
    volumes = unprotected(applied) if applied is not None else ()
    if args.json:
        document = _document(found, nodes, applied, findings, ready)
        document["unprotected"] = msgspec.to_builtins(volumes)
        box.terminal.say(msgspec.json.encode(document).decode())
        return 0
    served = ", ".join(f"{count} {kind}" for kind, count in sorted(found.resources.items())) or "nothing"
    box.terminal.say(harmless(f"serving revision {found.serving.number} from {found.source}: {served}"))
    if found.head != found.serving:
        box.terminal.say(f"the ledger's head is revision {found.head.number}")
    if nodes and isinstance(hub, FleetReader):
        box.terminal.say(harmless(_summary(nodes, ready)))
    if applied is not None and (public := edge_view.views(applied, nodes)):
        box.terminal.say(harmless(_public(public)))
    if volumes:
        box.terminal.say(harmless(_unprotected(volumes)))
    for finding in findings:
        box.terminal.say(show_finding.text(finding, box.terminal, _since(finding)))
    return 0


def _applied(hub: HubReader, args: Namespace, box: Toolbox) -> tuple[Applied | None, list[StatusFinding]]:
    """Verified where it comes from a hub; one that cannot be believed is a finding, and no node is believed then."""
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
        return unheard(applied), True
    answer = hub.nodes()
    return hear(answer, applied, box.clock.now_s()), answer.ready


def doubts(nodes: dict[str, VerifiedReport]) -> list[StatusFinding]:
    """What the hub says of nodes and cannot prove, or seems to hold back."""
    found = []
    for name, one in sorted(nodes.items()):
        address = f"node.{name}"
        if one.withheld_s:
            text = (
                f"the hub says it heard {name} {aged(one.view.age_s or 0.0)} ago, but the newest word it shows was "
                f"signed {aged(one.age_s)} ago: it holds words back, or the clock of {name} is wrong"
            )
            remedy = f"compare with the machine itself: holdfast agent check on {name}"
            found.append(StatusFinding("word_withheld", "warning", text, remedy, address, round(one.age_s, 3)))
        elif one.is_old:
            text = (
                f"the hub calls {name} healthy, but the newest word of {name} it shows was signed {aged(one.age_s)} "
                f"ago: {name} is dead, the hub holds its words back, or a clock is wrong"
            )
            remedy = f"compare with the machine itself: holdfast agent check on {name}"
            found.append(StatusFinding("word_old", "warning", text, remedy, address, round(one.age_s, 3)))
        elif one.view.pulse is not None and not one.verified:
            text = f"what the hub shows as the word of {name} is not proven: {one.doubt}"
            remedy = f"holdfast node show {name}; if its key is new to you, holdfast node revoke {name}"
            found.append(StatusFinding("word_unverified", "warning", text, remedy, address, one.view.age_s or 0.0))
    return found


def unrecorded(nodes: dict[str, VerifiedReport], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Who joined and is in no revision yet, once the invite is over: that proof does not last."""
    found = []
    for name, one in sorted(nodes.items()):
        if not one.key or one.view.enrolment is None or recorded_key(applied, name) == one.key:
            continue
        expires_s = decode_invite(one.view.enrolment.invite.invite).expires_s
        if now_s > expires_s:
            text = f"no revision records the key that {name} joined with; until {rfc3339(expires_s + RECORD_S)} one can"
            address = f"node.{name}"
            age_s = round(now_s - expires_s, 3)
            found.append(StatusFinding("key_not_recorded", "warning", text, "holdfast apply", address, age_s))
    return found


def not_as_applied(nodes: dict[str, VerifiedReport], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Services that have not converged or are not well, by the word of their node alone."""
    found: list[StatusFinding] = []
    for name, one in sorted(nodes.items()):
        if one.report is not None and not one.is_old:
            found += service_findings.of(name, one.report, applied, now_s)
    return found


def not_public(nodes: dict[str, VerifiedReport], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Public routes and certificates that are not as they should be: the findings of the nodes' own, and what their
    reports show beside."""
    found: list[StatusFinding] = []
    for name, one in sorted(nodes.items()):
        if one.report is not None and edge_view.is_heard(one):
            found += _of_traffic(name, one.report, now_s)
            found += edge_findings.of(name, one.report, applied, now_s, edge_view.has_accepted(one, applied))
    return found


def _of_traffic(node: str, report: Report, now_s: float) -> Iterable[StatusFinding]:
    for own in report.findings:
        if own.code in OVER or own.code in edge_findings.ROWS:
            age_s = round(max(0.0, now_s - own.since_s), 3) if own.since_s else 0.0
            where = own.address or f"node.{node}"
            yield StatusFinding(own.code, "warning", f"{node}: {own.message}", own.remedy, where, age_s)


def merged(hub: Iterable[StatusFinding], own: list[StatusFinding]) -> list[StatusFinding]:
    """Nothing twice: what was found here replaces the same thing from the hub. What nodes say of their services and
    routes is taken from their own words only."""
    here = {(finding.code, finding.address) for finding in own}
    ours = service_findings.ROWS.keys() | DERIVED
    theirs = [finding for finding in hub if finding.code not in ours and (finding.code, finding.address) not in here]
    return list(dict.fromkeys([*theirs, *own]))


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
    routes = edge_view.edge_routes(applied, nodes)
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
    """Every key, also where it is empty: scripts rely on them."""
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


def _unprotected(found: Sequence[Unprotected]) -> str:
    named = [f"{one.service}/{one.volume}" for one in found[:VOLUMES_SHOWN]]
    if len(found) > VOLUMES_SHOWN:
        named.append(f"{len(found) - VOLUMES_SHOWN} more")
    return f"volumes that nothing protects (no backups are taken yet, each has one copy): {', '.join(named)}"


def _public(found: list[EdgeView]) -> str:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.status] = counts.get(one.status, 0) + 1
    return f"public hostnames: {', '.join(f'{n} {word}' for word, n in sorted(counts.items()))}; holdfast edge status"


def _summary(nodes: dict[str, VerifiedReport], ready: bool) -> str:
    counts: dict[str, int] = {}
    for one in nodes.values():
        counts[one.shown] = counts.get(one.shown, 0) + 1
    verified = sum(1 for one in nodes.values() if one.verified)
    warming = "" if ready else "; the hub started a moment ago and still listens"
    return f"nodes: {', '.join(f'{n} {word}' for word, n in sorted(counts.items()))}; {verified} verified here{warming}"
