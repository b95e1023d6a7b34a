"""Findings about nodes: where a node differs from the applied revision. Shows them, repairs nothing (M-76, M-77).

One table of codes; each rule compares one node with the applied revision. A rule finds nothing where a node has not
reported yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes import health
from holdfast.hub.nodes import view as nodes_view
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers.standby import Standby
from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding
from holdfast.model.revision import Entry
from holdfast.status.edges import carried
from holdfast.status.edges import findings as edge_findings
from holdfast.status.services import findings as service_findings

SKEW_S_MAX = 30.0


class Moment(Struct, frozen=True):
    """The time of the question, by both clocks, and the services that each node runs as standby then."""

    now_s: float
    loop_s: float
    standby: Callable[[str], Mapping[str, float]] = lambda node: {}


# code → (level, what to do); {node} is filled in.
ROWS: Mapping[str, tuple[str, str]] = {
    "node_unhealthy": (
        "warning",
        "look at the machine and its network; `holdfast agent check` on {node} shows more. Nothing on it was stopped",
    ),
    "node_unknown": ("warning", "wait for its next check-in (at most a minute); else start its agent on {node}"),
    "node_not_joined": ("warning", "`holdfast node invite {node}`, then `holdfast agent join TOKEN` on that machine"),
    "node_revoked": (
        "warning",
        "`holdfast node invite {node} --replace` for a new machine, or remove it from fleet.toml",
    ),
    "clock_skew": ("warning", "set the clock of {node}: timedatectl set-ntp true"),
    "node_ahead": ("warning", "this hub lost revisions that {node} has: holdfast import ledger"),
    "node_behind": ("warning", "`holdfast node show {node}` shows what it parked and why"),
    "node_degraded": ("warning", "holdfast node show {node}"),
    "audit_broken": (
        "warning",
        "keep the log of {node} as evidence; `holdfast audit --node {node}` shows the hub's copy",
    ),
    "placement_stale": ("warning", "`holdfast node show {node}`; `holdfast deploy {service}` starts it again"),
    "orphan": ("warning", "declare it in services/ and apply, or remove it on {node} by hand"),
    "still_moving": ("warning", "`holdfast ps` shows its new node; `holdfast deploy {service}` tries again"),
}
MOVING = "`holdfast status` shows how far it is; to take it back: holdfast migrate {service} --abort"

BEHIND_S = 60.0

Rule = Callable[[Member, Applied, Moment], Iterator[StatusFinding]]


class FleetFindings:
    """The rules below as a source of findings."""

    def __init__(self, registry: Registry, time: HubTime, standby: Standby) -> None:
        self._registry = registry
        self._time = time
        self._standby = standby

    def findings(self, now_s: float) -> Iterable[StatusFinding]:
        at = Moment(now_s, self._time.loop_s(), self._standby.services_on)
        return findings(self._registry.members, self._registry.applied, at)


def findings(members: Mapping[str, Member], applied: Applied | None, at: Moment) -> list[StatusFinding]:
    if applied is None:
        return []
    return [found for member in list(members.values()) for rule in RULES for found in rule(member, applied, at)]


def _finding(code: str, member: Member, text: str, age_s: float, address: str = "", service: str = "") -> StatusFinding:
    where = address or f"node.{member.name}"
    return StatusFinding(code, ROWS[code][0], text, _remedy(code, member, service), where, round(max(0.0, age_s), 3))


def _remedy(code: str, member: Member, service: str = "") -> str:
    _, remedy = ROWS[code]
    return remedy.format(node=member.name, service=service)


def _presence(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    condition = member.condition
    age_s = at.now_s - condition.since_s
    if member.revocation is not None:
        yield _finding("node_revoked", member, f"the key of {member.name} was revoked", 0.0)
    elif not member.joined:
        yield _finding("node_not_joined", member, f"{member.name} is declared, but no machine joined as it yet", 0.0)
    elif condition.status == "unhealthy":
        known_s = nodes_view.silent_s(member, member.heard_s, at.loop_s, at.now_s)
        silent_s = known_s if known_s is not None else age_s
        edge = carried.words(carried.hostnames(member.name, applied))
        if member.is_refused_for_clock:
            text = f"{member.name}: its requests are refused for {silent_s:.0f} s, because its clock is off{edge}"
            yield replace(_finding("node_unhealthy", member, text, age_s), remedy=_remedy("clock_skew", member))
        else:
            yield _finding("node_unhealthy", member, f"{member.name}: no contact for {silent_s:.0f} s{edge}", age_s)
    elif health.shown(condition, member.heard_s is not None) == "unknown":
        yield _finding("node_unknown", member, f"{member.name} has not checked in since this hub started", age_s)


def _clock(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    if member.joined and abs(member.skew_s) > SKEW_S_MAX:
        way = "ahead" if member.skew_s > 0 else "behind"
        yield _finding("clock_skew", member, f"the clock of {member.name} is {abs(member.skew_s):.0f} s {way}", 0.0)


def _revision(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    if not member.joined or member.pulse is None:
        return
    accepted, head = member.seen, applied.head
    if accepted.number > head.number or (accepted.number == head.number and accepted.digest != head.digest):
        missing = accepted.number - head.number
        text = (
            f"{member.name} accepted revision {accepted.number} ({accepted.digest[:12]}…), which this hub does not have"
        )
        if missing > 0:
            text += f": it is at revision {head.number} and misses {missing} revision{'s' * (missing != 1)}"
        yield _finding("node_ahead", member, text, 0.0)
    elif accepted.number < head.number and _is_stuck(member, at):
        text = f"{member.name} is at revision {accepted.number} and does not follow to {head.number}"
        yield _finding("node_behind", member, text, at.loop_s - member.answered.first_s)


def _is_stuck(member: Member, at: Moment) -> bool:
    """It was sent the head for so long, and does not accept it."""
    return member.answered.heads is not None and at.loop_s - member.answered.first_s > BEHIND_S


def _own(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    """What the node itself found and parked, with its own remedies. A node that names nothing is shown as degraded."""
    report = member.report
    if report is None or not member.joined:
        return
    if report.health == "degraded" and not (report.parked or report.findings):
        yield _finding("node_degraded", member, f"{member.name} reports that it is degraded", 0.0)
    for parked in report.parked:
        age_s = round(max(0.0, at.now_s - parked.since_s), 3)
        text = f"{member.name} parked this until an operator acts: {parked.reason}"
        yield StatusFinding("needs_operator", "warning", text, parked.remedy, parked.address, age_s)
    for own in report.findings:
        age_s = round(max(0.0, at.now_s - own.since_s), 3) if own.since_s else 0.0
        yield StatusFinding(
            own.code,
            "warning",
            f"{member.name}: {own.message}",
            own.remedy,
            own.address or f"node.{member.name}",
            age_s,
        )


def _audit(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    if member.audit.trouble:
        yield _finding("audit_broken", member, f"{member.name}: {member.audit.trouble}", 0.0)


def _placements(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    """Only where containers are reported: there is nothing to compare for an agent that starts none. A service that the
    node itself reports about is left out here."""
    report = member.report
    if report is None or not report.containers:
        return
    spoken = {state.service for state in report.services}
    running = {container.service for container in report.containers if container.status == "running"}
    ours = {container.service for container in report.containers if not container.orphan}
    placed = {
        address.removeprefix("service."): entry
        for address, entry in applied.table.entries.items()
        if address.startswith("service.") and entry.node is not UNSET and entry.node == member.name
    }
    is_silent = member.condition.status == "unhealthy"  # which is a finding of its own, and what runs is not known
    for name in sorted(placed.keys() - running - spoken) if not is_silent else ():
        text = f"{name} is placed on {member.name}, but does not run there"
        yield _finding("placement_stale", member, text, 0.0, f"service.{name}", name)
    for name in sorted(running - placed.keys()):
        entry = applied.table.entries.get(f"service.{name}")
        if f"service.{name}" in at.standby(member.name):
            continue
        if entry is not None and entry.node is not UNSET and name in ours:
            yield _still_moving(name, entry, member, is_silent)
            continue
        text = f"{name} runs on {member.name}, but nothing places it there"
        yield _finding("orphan", member, text, 0.0, f"service.{name}", name)


def _still_moving(name: str, entry: Entry, member: Member, is_silent: bool) -> StatusFinding:
    moves = entry.move is not UNSET and entry.move.hands_over and entry.move.source == member.name
    what = f"{name} moves to {entry.node} with its data" if moves else f"{name} was moved to {entry.node}"
    until = "until it has handed it over" if moves else "until it is proven there"
    text = f"{what}; {member.name} {'served it before it became silent' if is_silent else f'serves it {until}'}"
    found = _finding("still_moving", member, text, 0.0, f"service.{name}", name)
    return replace(found, remedy=MOVING.format(service=name)) if moves else found


def _services(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    if member.report is not None and member.joined:
        yield from service_findings.findings(member.name, member.report, applied, at.now_s)


def _edges(member: Member, applied: Applied, at: Moment) -> Iterator[StatusFinding]:
    """M-76 (4): compare each applied route with the report of its edge, if there is one."""
    if member.report is not None and member.joined and member.condition.status != "unhealthy":
        has_accepted = member.seen == applied.head
        yield from edge_findings.findings(member.name, member.report, applied, at.now_s, has_accepted)


RULES: tuple[Rule, ...] = (_presence, _clock, _revision, _own, _audit, _placements, _services, _edges)
