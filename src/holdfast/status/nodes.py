"""Findings about nodes from their verified reports: doubts, keys not recorded, services, traffic. Pure.

The command line derives them; a hub that shows old or forged reports is a finding itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from holdfast.model.alert_codes import OVER
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.duration import aged
from holdfast.model.hub_status import StatusFinding
from holdfast.model.invite import decode_invite
from holdfast.model.report import Report
from holdfast.model.verified_report import VerifiedReport
from holdfast.status import moves
from holdfast.status.edges import findings as edge_findings
from holdfast.status.services import findings as service_findings
from holdfast.trust.enrolment import RECORD_S

# Derived from reports; no node reports them itself.
DERIVED = frozenset({"edge_route_missing", "edge_route_waiting", "edge_route_leaving"})


def is_heard(one: VerifiedReport) -> bool:
    """The node has a verified, recent report, and the hub does not call it silent."""
    return one.verified and one.report is not None and one.status != "unhealthy"


def has_accepted(one: VerifiedReport | None, applied: Applied) -> bool:
    return one is not None and one.pulse is not None and one.pulse.accepted == applied.head


def doubts(nodes: Mapping[str, VerifiedReport]) -> list[StatusFinding]:
    """What the hub shows of nodes and does not prove, or seems to hold back."""
    return [found for name, one in sorted(nodes.items()) if (found := _doubt(name, one)) is not None]


def _doubt(name: str, one: VerifiedReport) -> StatusFinding | None:
    compare = f"compare with the machine itself: `holdfast agent check` on {name}"
    age_s = round(one.age_s, 3)
    if one.withheld_s:
        text = (
            f"the hub reports contact with {name} {aged(one.view.age_s or 0.0)} ago, but the newest pulse it shows was "
            f"signed {aged(one.age_s)} ago: it holds pulses back, or the clock of {name} is wrong"
        )
        return StatusFinding("word_withheld", "warning", text, compare, f"node.{name}", age_s)
    if one.is_old:
        text = (
            f"the hub calls {name} healthy, but the newest pulse of {name} it shows was signed {aged(one.age_s)} ago: "
            f"{name} is down, the hub holds pulses back, or a clock is wrong"
        )
        return StatusFinding("word_old", "warning", text, compare, f"node.{name}", age_s)
    if one.view.pulse is not None and not one.verified:
        text = f"the pulse that the hub shows for {name} is not proven: {one.doubt}"
        remedy = f"`holdfast node show {name}`; if its key is new to you, `holdfast node revoke {name}`"
        return StatusFinding("word_unverified", "warning", text, remedy, f"node.{name}", one.view.age_s or 0.0)
    return None


def unrecorded(
    nodes: Mapping[str, VerifiedReport], applied: Applied, now_s: float, moment: Callable[[float], str]
) -> list[StatusFinding]:
    """Nodes that joined and whose key no revision records, once their invite expired: that proof does not last.
    `moment` writes a time for people."""
    found = []
    for name, one in sorted(nodes.items()):
        if not one.key or one.view.enrolment is None or recorded_key(applied, name) == one.key:
            continue
        expires_s = decode_invite(one.view.enrolment.invite.invite).expires_s
        if now_s > expires_s:
            text = f"no revision records the key that {name} joined with; until {moment(expires_s + RECORD_S)} one can"
            age_s = round(now_s - expires_s, 3)
            found.append(StatusFinding("key_not_recorded", "warning", text, "holdfast apply", f"node.{name}", age_s))
    return found


def not_as_applied(nodes: Mapping[str, VerifiedReport], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Services that have not converged or are unhealthy, by the report of their node alone."""
    found: list[StatusFinding] = []
    for name, one in sorted(nodes.items()):
        if one.report is not None and not one.is_old:
            those = service_findings.findings(name, one.report, applied, now_s)
            found += [_of_silent(each, name) for each in those] if one.silence else those
    return found


def _of_silent(one: StatusFinding, node: str) -> StatusFinding:
    """A rollout may be over by now, and its logs cannot be read (N58)."""
    if one.code != "rollout_settling":
        return one
    text = f"{one.message}, as {node} reported before it became silent"
    return replace(one, message=text, remedy=f"holdfast node show {node}")


def not_reported(nodes: Mapping[str, VerifiedReport], applied: Applied) -> list[StatusFinding]:
    """Services of which no proven report says anything, although their node is healthy and follows the revision: the
    hub may show a report that is not the one that the node signed."""
    found, moving = [], {one.service for one in moves.under_way(applied.table, nodes)}
    for name, entry in sorted(applied.table.of_kind("service").items()):
        one = nodes.get(str(entry.node))
        if not entry.containers or one is None or one.status != "healthy" or not has_accepted(one, applied):
            continue
        if name in moving:
            continue  # its new node reports the move; it begins when its data is there
        if one.report is None or all(state.service != name for state in one.report.services):
            text = f"{entry.node} is healthy, but no report that it signed says whether this service runs"
            remedy = f"`holdfast node show {entry.node}`; compare with the machine itself: holdfast agent check"
            found.append(StatusFinding("service_unknown", "warning", text, remedy, f"service.{name}"))
    return found


def not_public(nodes: Mapping[str, VerifiedReport], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Public routes and certificates that are not as they should be: findings that nodes report, and derived ones."""
    found: list[StatusFinding] = []
    for name, one in sorted(nodes.items()):
        if one.report is not None and is_heard(one):
            found += _of_traffic(name, one.report, now_s)
            found += edge_findings.findings(name, one.report, applied, now_s, has_accepted(one, applied))
    return found


def _of_traffic(node: str, report: Report, now_s: float) -> Iterator[StatusFinding]:
    for own in report.findings:
        if own.code in OVER or own.code in edge_findings.ROWS:
            age_s = round(max(0.0, now_s - own.since_s), 3) if own.since_s else 0.0
            where = own.address or f"node.{node}"
            yield StatusFinding(own.code, "warning", f"{node}: {own.message}", own.remedy, where, age_s)


def merged(hub: Iterable[StatusFinding], own: list[StatusFinding]) -> list[StatusFinding]:
    """Nothing twice: a finding of this command replaces the same one of the hub. Findings about services and routes
    come from verified reports only."""
    here = {(finding.code, finding.address) for finding in own}
    ours = service_findings.ROWS.keys() | DERIVED
    theirs = [finding for finding in hub if finding.code not in ours and (finding.code, finding.address) not in here]
    return list(dict.fromkeys([*theirs, *own]))
