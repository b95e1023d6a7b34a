"""Findings about public hostnames and certificates that are not as applied, from the report of their edge. Pure.

The hub derives them from the reports it holds; the command line derives them again from reports it verified. A finding
that the edge itself reports is not repeated here.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import CertificateState, EdgeState, Report
from holdfast.model.revision import Entry
from holdfast.planning.public_routes import carried

EXPIRING_S = 25 * 86_400.0  # certificates are renewed at 30 days left: with less, renewing has failed
WAITS_S = 30.0

# code → remedy, unless the edge reports one
ROWS: Mapping[str, str] = {
    "edge_route_missing": "wait until {node} adds it; `holdfast node show {node}` says what prevents it",
    "edge_route_failed": "fix what it names; {node} tries again; `holdfast deploy {service}` waits for it",
    "edge_route_waiting": "wait: it continues automatically; `holdfast ps {service}` shows whether its service runs",
    "edge_route_leaving": "wait: it is removed once its backend is gone, or when [timeouts] undeploy is over",
    "backend_unreachable": "`holdfast ps {service}` shows whether it runs, `holdfast status` whether its node does",
    "dns_differs": "holdfast node show {node}",
    "public_dns_differs": "change the public record of {hostname} where it is made, or public_address of {node}",
    "certificate_expiring": "`holdfast node show {node}` says why it is not renewed",
    "certificate_failed": "holdfast node show {node}",
}


def findings(node: str, report: Report, applied: Applied, now_s: float, has_accepted: bool) -> Iterator[StatusFinding]:
    """`has_accepted`: the node accepted the applied revision, so that a missing route counts."""
    wanted = wanted_of(node, applied)
    for (hostname, service), entry in sorted(wanted.items(), key=lambda one: one[0]):
        yield from of_wanted(node, hostname, service, entry, report, now_s, has_accepted)
    for (hostname, service), state in sorted(report.routes.items()):
        if (hostname, service) not in wanted and has_accepted and may_leave(node, state, applied):
            yield leaving(node, state, now_s)
    for certificate in report.certificates:
        yield from _of_certificate(node, certificate, report, "", now_s)


def of_wanted(
    node: str, hostname: str, service: str, entry: Entry, report: Report, now_s: float, has_accepted: bool
) -> Iterator[StatusFinding]:
    """About a hostname that this edge must carry."""
    state = report.routes.get((hostname, service))
    if state is not None:
        found = _of_state(node, state, report, now_s, stands_in(state, entry))
        yield from (one for one in found if not (one.code == "edge_route_waiting" and _takes_its_time(state, entry)))
    elif has_accepted and report.mode == "converge" and not report.edge_unlisted:
        text = f"{node} does not answer for {hostname}"
        yield _finding("edge_route_missing", node, hostname, service, text, 0.0)


def leaving(node: str, state: EdgeState, now_s: float) -> StatusFinding:
    text = f"{node} still answers for {state.hostname}, which is not applied any more"
    return _finding("edge_route_leaving", node, state.hostname, state.service, text, _age_s(state, now_s))


def may_leave(node: str, state: EdgeState, applied: Applied) -> bool:
    """A hostname that this edge must not carry may be one that it had before. A node that is no edge cannot have had
    one that is applied on an edge: its report forges it (X09)."""
    entry = applied.table.entries.get(f"node.{node}")
    if entry is not None and entry.proxy == "public":
        return True
    return not any(state.hostname in carried(other) for other in applied.table.entries.values() if other.public)


def wanted_of(node: str, applied: Applied) -> dict[tuple[str, str], Entry]:
    """(hostname, service) → entry of the service, of everything that this edge must carry."""
    return {
        (hostname, address.removeprefix("service.")): entry
        for address, entry in applied.table.entries.items()
        if entry.public and address.startswith("service.")
        for hostname, route in carried(entry).items()
        if route.edge == node
    }


def stands_in(state: EdgeState, entry: Entry) -> bool:
    """The edge leads to a standby node instead of the service's own. Its backend trouble is then about the service's
    own node; the hub, which asked for the standby, has a finding for it."""
    is_silent = state.code in ("backend_unreachable", "backend_down")
    return state.phase == "live" and state.node in entry.failover and not is_silent


def _takes_its_time(state: EdgeState, entry: Entry) -> bool:
    """Its data is being moved, and its former node serves it until then: the move has its own findings."""
    return bool(state.former) and entry.move is not UNSET and entry.move.hands_over


def _of_state(node: str, state: EdgeState, report: Report, now_s: float, is_standby: bool) -> Iterator[StatusFinding]:
    state = replace(state, backend_trouble="") if is_standby else state
    found = [
        (code, text) for code, text in _troubles(node, state, now_s) if not _is_reported(code, state.hostname, report)
    ]
    for code, text in found:
        remedy = state.remedy if code in ("edge_route_failed", "edge_route_waiting") else ""
        yield _finding(code, node, state.hostname, state.service, text, _age_s(state, now_s), remedy)
    if state.certificate is not None:
        yield from _of_certificate(node, state.certificate, report, state.service, now_s)


def _troubles(node: str, state: EdgeState, now_s: float) -> Iterator[tuple[str, str]]:
    step = f" at step {state.step!r}" if state.step else ""
    why = f": {state.message}" if state.message else ""
    if state.phase == "failed":
        yield "edge_route_failed", f"{state.hostname} is not public: it failed on {node}{step}{why}"
    elif state.phase == "waiting" and _age_s(state, now_s) > WAITS_S:
        so_far = "is served by its former node" if state.former else "is not public yet"
        yield "edge_route_waiting", f"{state.hostname} {so_far}: {node} waits{step}{why}"
    if state.phase == "live" and state.backend_trouble and state.code != "backend_down":  # the own node has the reason
        text = f"{node} does not reach {state.backend} on {state.node} for {state.hostname}: {state.backend_trouble}"
        yield "backend_unreachable", text
    if state.phase == "live" and state.dns_trouble:
        text = f"DNS on {node} differs from the revision for {state.hostname}: {state.dns_trouble}"
        yield "dns_differs", text
    if state.public_dns:
        yield "public_dns_differs", f"public DNS does not resolve {state.hostname} to {node}: {state.public_dns}"


def _of_certificate(
    node: str, one: CertificateState, report: Report, service: str, now_s: float
) -> Iterator[StatusFinding]:
    name = one.names[0] if one.names else ""
    left_s = one.expires_s - now_s
    if one.expires_s and left_s <= EXPIRING_S and not _is_reported("certificate_expiring", name, report):
        days = f"in {left_s / 86_400:.0f} days" if left_s > 0 else f"{-left_s / 86_400:.0f} days ago"
        verb = "expires" if left_s > 0 else "expired"
        why = f": {one.trouble}" if one.trouble else ""
        text = f"the certificate of {name} on {node} {verb} {days}{why}"
        yield _finding("certificate_expiring", node, name, service, text, 0.0)
    elif one.trouble and not _is_reported("certificate_failed", name, report):
        text = f"the certificate of {name} on {node}: {one.trouble}"
        yield _finding("certificate_failed", node, name, service, text, 0.0)


def _is_reported(code: str, name: str, report: Report) -> bool:
    """The node has this finding itself; that one is shown."""
    return any(own.code == code and (name in own.address or name in own.message) for own in report.findings)


def _finding(
    code: str, node: str, hostname: str, service: str, text: str, age_s: float, remedy: str = ""
) -> StatusFinding:
    remedy = remedy or ROWS[code].format(node=node, hostname=hostname, service=service)
    address = f"service.{service}" if service else f"node.{node}"
    return StatusFinding(code, "warning", text, remedy, address, round(age_s, 3))


def _age_s(state: EdgeState, now_s: float) -> float:
    return max(0.0, now_s - state.since_s) if state.since_s else 0.0
