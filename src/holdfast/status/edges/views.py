"""One view of each applied public hostname, with the verified report of its edge. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import CertificateState, EdgeState, Report
from holdfast.model.revision import Entry
from holdfast.model.route import PublicRoute
from holdfast.model.verified_report import VerifiedReport
from holdfast.planning.public_routes import carried, wanted
from holdfast.status.edges import findings as edge_findings
from holdfast.status.edges.settled import leads_there
from holdfast.status.nodes import has_accepted, is_heard
from holdfast.status.services import serving

BROKEN = frozenset(edge_findings.ROWS) - {"public_dns_differs", "edge_route_leaving"}
BROKEN_STATUS = ("failed", "unreachable", "missing", "unknown", "not on an edge", "held", "down")
SERVING_STATUS = ("live", "moving", "standby")


class EdgeView(Struct, frozen=True):
    """`state` is None unless a verified and recent report of the edge has the hostname."""

    hostname: str
    service: str
    component: str
    edge: str
    node: str
    route: PublicRoute
    entry: Entry | None  # of the service; None if it is not applied any more
    edge_report: VerifiedReport | None
    state: EdgeState | None = None
    has_accepted: bool = False  # the edge accepted the applied revision
    behind: str = ""  # what its node reports of the component: held, down, or "" if it works or nothing is known

    @property
    def status(self) -> str:
        """live, waiting, failed or leaving as the edge reports; unreachable if it has the route and its backend does
        not answer; held or down if its node reports, or its proxy answers the edge, that no container of the component
        does its work; moving while it leads to the former node, standby while it leads to a standby node; unknown if
        the edge is silent or its report leaves routes out; missing if it has no such route."""
        if not self.edge:
            return "not on an edge"
        if self.edge_report is None or not is_heard(self.edge_report):
            return "unknown"
        if self.state is None:
            return "unknown" if self.is_unlisted else "missing" if self.has_accepted else "waiting"
        if self.entry is None:
            return "leaving"  # whatever it claims: the applied revision gives the hostname to no edge, or to another
        if self.state.phase == "waiting" and self.state.former:
            return "moving"
        if self.state.phase != "live":
            return self.behind if self.behind and self.state.phase == "waiting" else self.state.phase
        if leads_there(self.state, self.node, self.entry.epoch, self.route.backend):
            return self.behind or self._answer
        if self.state.node not in self.entry.failover:
            return "moving"
        return "standby" if self.stands_in else "unreachable"

    @property
    def _answer(self) -> str:
        """As the edge itself was answered."""
        if self.state is None or not self.state.backend_trouble:
            return "live"
        return "down" if self.state.code == "backend_down" else "unreachable"

    @property
    def is_unlisted(self) -> bool:
        report = self.edge_report.report if self.edge_report is not None else None
        return report is not None and report.edge_unlisted > 0

    @property
    def stands_in(self) -> bool:
        """A standby node answers instead of the service's own."""
        return self.state is not None and self.entry is not None and edge_findings.stands_in(self.state, self.entry)

    @property
    def certificate(self) -> CertificateState | None:
        return self.state.certificate if self.state is not None else None

    @property
    def is_reachable(self) -> bool | None:
        """None before the first try."""
        if self.stands_in:
            return True
        return _tried(self.state, "backend", self.state.backend_trouble) if self.state is not None else None

    @property
    def dns_agrees(self) -> bool | None:
        return _tried(self.state, "dns", self.state.dns_trouble) if self.state is not None else None

    @property
    def age_s(self) -> float | None:
        """Of the newest verified pulse of the edge; None if there is none."""
        one = self.edge_report
        return round(one.age_s, 3) if one is not None and one.pulse is not None else None

    @property
    def is_public(self) -> bool:
        """The edge reports that clients get an answer."""
        return self.status in SERVING_STATUS

    @property
    def missing_step(self) -> str:
        """The step or status that keeps it from being public."""
        return (self.state.step if self.state is not None else "") or self.status


def _tried(state: EdgeState, step: str, trouble: str) -> bool | None:
    if trouble or (state.step == step and state.message):
        return False
    is_done = any(one.name == step and one.outcome == "done" for one in state.steps)
    return True if is_done or state.phase == "live" else None


def views(applied: Applied, nodes: dict[str, VerifiedReport]) -> list[EdgeView]:
    """Also of hostnames that an edge still serves although they are not applied any more. About a hostname that is
    applied, only its own edge counts, and another edge, which may have had it before (X09)."""
    found = [_view(applied, nodes, *row) for row in _applied(applied)]
    known = {(view.edge, view.hostname, view.service) for view in found}
    for name, verified in sorted(nodes.items()):
        for state in verified.report.edge if verified.report is not None and is_heard(verified) else ():
            if (name, state.hostname, state.service) not in known and edge_findings.may_leave(name, state, applied):
                route = PublicRoute(state.component, "", name, state.backend)
                found.append(_leaving(name, state, route, verified))
    return sorted(found, key=lambda view: (view.hostname, view.edge))


def _leaving(edge: str, state: EdgeState, route: PublicRoute, verified: VerifiedReport) -> EdgeView:
    return EdgeView(
        hostname=state.hostname,
        service=state.service,
        component=state.component,
        edge=edge,
        node=state.node,
        route=route,
        entry=None,
        edge_report=verified,
        state=state,
    )


def _applied(applied: Applied) -> Iterator[tuple[str, Entry, str, PublicRoute]]:
    for address, entry in applied.table.entries.items():
        if entry.public and address.startswith("service."):
            for hostname, route in wanted(entry).items():
                yield address.removeprefix("service."), entry, hostname, route


def _view(
    applied: Applied, nodes: dict[str, VerifiedReport], service: str, entry: Entry, hostname: str, route: PublicRoute
) -> EdgeView:
    verified = nodes.get(route.edge)
    report = verified.report if verified is not None and is_heard(verified) else None
    return EdgeView(
        hostname=hostname,
        service=service,
        component=route.component,
        edge=route.edge,
        node=str(entry.node),
        route=route,
        entry=entry,
        edge_report=verified,
        state=report.routes.get((hostname, service)) if report is not None else None,
        has_accepted=has_accepted(verified, applied),
        behind=_behind(nodes.get(str(entry.node)), service, route.component),
    )


def _behind(worker: VerifiedReport | None, service: str, component: str) -> str:
    """An edge proves that the proxy of a node answers; this, that a container behind it does."""
    report = worker.report if worker is not None and is_heard(worker) else None
    state = next((one for one in report.services if one.service == service), None) if report is not None else None
    if report is None or state is None:
        return ""
    if state.phase == "held":
        return "held"
    if state.phase == "failed" and not state.serving:
        return "down"  # its containers are gone, or never worked
    mine = [one for one in serving.containers(state, report) if one.component == component]
    return "down" if mine and all(one.status in ("unhealthy", "stopped") for one in mine) else ""


def findings(view: EdgeView, now_s: float) -> list[StatusFinding]:
    """Findings about this hostname; those that its edge reports come first."""
    report = view.edge_report.report if view.edge_report is not None and is_heard(view.edge_report) else None
    if report is None:
        return []
    return [*_own(view, report, now_s), *_derived(view, report, now_s)]


def _derived(view: EdgeView, report: Report, now_s: float) -> Iterator[StatusFinding]:
    if view.entry is not None and view.hostname in carried(view.entry):
        service, entry, accepted = view.service, view.entry, view.has_accepted
        yield from edge_findings.of_wanted(view.edge, view.hostname, service, entry, report, now_s, accepted)
    elif view.state is not None and view.has_accepted:
        yield edge_findings.leaving(view.edge, view.state, now_s)


def _own(view: EdgeView, report: Report, now_s: float) -> Iterator[StatusFinding]:
    for own in report.findings:
        if view.hostname in own.message or own.address.endswith(f".{view.hostname}"):
            age_s = max(0.0, now_s - own.since_s) if own.since_s else 0.0
            remedy = _remedy(view.state, own.message) or own.remedy
            yield StatusFinding(own.code, "warning", own.message, remedy, own.address, round(age_s, 3))


def _remedy(state: EdgeState | None, message: str) -> str:
    """A finding is about every hostname of a service; the state of this hostname has the more exact remedy."""
    return state.remedy if state is not None and state.message and state.message in message else ""


def is_broken(view: EdgeView, found: list[StatusFinding]) -> bool:
    """Not as it should be, or unknown. Public DNS that leads elsewhere is a warning only."""
    if view.status in BROKEN_STATUS:
        return True
    found = [one for one in found if not (view.stands_in and one.code == "backend_unreachable")]
    return any(one.code in BROKEN or one.code in ("handshake_failed", "certificate_stale") for one in found)


def edge_routes(applied: Applied, nodes: dict[str, VerifiedReport]) -> dict[str, list[EdgeView]]:
    """By service (M-44)."""
    found: dict[str, list[EdgeView]] = {}
    for view in views(applied, nodes):
        if view.entry is not None and view.hostname in carried(view.entry):
            found.setdefault(view.service, []).append(view)
    return found
