"""Has a public hostname that a command changed settled? Judged by the verified report of its edge. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.model.deployment import StepResult
from holdfast.model.report import EdgeState
from holdfast.model.revision import Entry, Table
from holdfast.planning.public_routes import wanted
from holdfast.status.services.settled import ILL, Observed

if TYPE_CHECKING:  # only a type: a command starts sooner without this module
    from holdfast.model.verified_report import VerifiedReport

# live: the edge has it and has seen a real handshake. skipped: not tried, because a step before it failed (D-27).
# gone: the edge removed it. unknown: the edge reports nothing about it, so that the command does not wait for it.
Phase = Literal["waiting", "live", "failed", "skipped", "gone", "unknown"]

NAME_STEP = "dns"  # of an edge: does its own DNS lead to the backend?
_REACHED = ("converged", "held", "settling")


class EdgeAwaited(Struct, frozen=True):
    """`node` "" means that the edge must remove it."""

    hostname: str
    service: str
    edge: str
    node: str = ""  # that it must lead to
    epoch: int = 0
    backend: str = ""  # internal name


class EdgeObserved(Struct, frozen=True, omit_defaults=True):
    hostname: str
    service: str
    edge: str
    phase: Phase
    step: str = ""
    code: str = ""
    message: str = ""
    remedy: str = ""
    steps: tuple[StepResult, ...] = ()
    expires_s: float = 0.0  # of the certificate that is shown
    public_dns: str = ""  # a warning only (M-80)
    node: str = ""  # that runs it

    @property
    def is_settled(self) -> bool:
        return self.phase != "waiting"

    @property
    def has_failed(self) -> bool:
        return self.phase == "failed" or (self.phase == "skipped" and self.step == NAME_STEP)


def awaited(before: Table, after: Table) -> tuple[EdgeAwaited, ...]:
    """Every public hostname of a service whose entry changed, and those that its edges must remove."""
    found: list[EdgeAwaited] = []
    for address in sorted(before.entries.keys() | after.entries.keys()):
        was, becomes = before.entries.get(address), after.entries.get(address)
        if address.startswith("service.") and was != becomes:
            found += _of_service(address.removeprefix("service."), was, becomes)
    return tuple(found)


def _of_service(name: str, was: Entry | None, becomes: Entry | None) -> list[EdgeAwaited]:
    routes, had = wanted(becomes), wanted(was)
    node = becomes.node if becomes is not None and becomes.node is not UNSET else ""
    epoch = becomes.epoch if becomes is not None else 0
    comes = [EdgeAwaited(host, name, one.edge, node, epoch, one.backend) for host, one in sorted(routes.items())]
    goes = [
        EdgeAwaited(host, name, one.edge)
        for host, one in sorted(had.items())
        if one.edge and (host not in routes or routes[host].edge != one.edge)
    ]
    return comes + goes


def judge(
    one: EdgeAwaited, verified: "VerifiedReport | None", has_accepted: bool, worker: Observed | None
) -> EdgeObserved:
    """`has_accepted`: the edge signed for the revision in question. `worker`: the state of the service itself."""
    if not one.edge:
        return _unknown(one, "no node is an edge", 'give a node the role "edge" in fleet.toml, then: holdfast apply')
    if verified is None or not verified.key:
        return _unknown(one, f"no machine joined as {one.edge} yet", f"holdfast node invite {one.edge}")
    if verified.report is None or not has_accepted:
        return EdgeObserved(one.hostname, one.service, one.edge, "waiting", node=one.node)
    if verified.report.mode == "observe":
        return _unknown(one, f'{one.edge} only observes (reconcile = "observe")', "holdfast status")
    state = verified.report.routes.get((one.hostname, one.service))
    if state is None and verified.report.edge_unlisted:
        text = f"the report of {one.edge} is too long to name every public hostname"
        return _unknown(one, text, "divide the routes among more edges; each of them can tell of about 2,000")
    if not one.node:
        return _left(one, state)
    found = _carried(one, state)
    if found.phase == "live" and worker is not None and _is_idle(worker):
        does = "is stopped" if worker.phase == "held" else "does not work"
        text = f"not public, as {one.service} {does} on {worker.node}"
        return replace(found, phase="skipped", message=text, remedy=worker.remedy or f"holdfast start {one.service}")
    return found if found.phase == "live" or worker is None else _behind(one, found, worker)


def _is_idle(worker: Observed) -> bool:
    """Its containers do not work, whatever the edge has seen of them before."""
    return worker.phase == "held" or worker.code == ILL or bool(worker.ails)


def says_nothing(verified: "VerifiedReport | None") -> bool:
    """An agent that reports no proxy and no public route has none."""
    return verified is not None and verified.report is not None and not (verified.report.proxy or verified.report.edge)


def unwatched(one: EdgeAwaited) -> EdgeObserved:
    text = f"{one.edge} reports no public routes: its agent runs no proxy"
    return _unknown(one, text, f"holdfast node show {one.edge}")


def unheard(one: EdgeAwaited, for_s: float) -> EdgeObserved:
    text = f"no contact with {one.edge} for {for_s:.0f} s, so it is unknown whether {one.hostname} is public"
    return _unknown(one, text, "look at the machine and its network; holdfast edge status")


def gated(found: EdgeObserved, why: str) -> EdgeObserved:
    """The DNS step failed, so that the edge did not try its own (D-27)."""
    text = f"skipped, as the DNS step failed: {why}"
    remedy = found.remedy or f"holdfast node show {found.edge}"
    return replace(found, phase="skipped", step=NAME_STEP, code="dns_failed", message=text, remedy=remedy)


def leads_there(state: EdgeState, node: str, epoch: int, backend: str) -> bool:
    """The route leads to the applied backend, not to an earlier one."""
    return (state.node, state.epoch, state.backend) == (node, epoch, backend)


def _left(one: EdgeAwaited, state: EdgeState | None) -> EdgeObserved:
    if state is None:
        return EdgeObserved(one.hostname, one.service, one.edge, "gone")
    step = state.step or "let go"
    return EdgeObserved(one.hostname, one.service, one.edge, "waiting", step, message=state.message, steps=state.steps)


def _carried(one: EdgeAwaited, state: EdgeState | None) -> EdgeObserved:
    if state is None or not leads_there(state, one.node, one.epoch, one.backend) or state.phase == "leaving":
        return EdgeObserved(one.hostname, one.service, one.edge, "waiting", node=one.node)
    found = EdgeObserved(
        hostname=one.hostname,
        service=one.service,
        edge=one.edge,
        phase=state.phase,
        step=state.step,
        code=state.code,
        message=state.message,
        remedy=state.remedy,
        steps=state.steps,
        expires_s=state.certificate.expires_s if state.certificate is not None else 0.0,
        public_dns=state.public_dns,
        node=one.node,
    )
    return gated(found, state.message or state.dns_trouble) if _lacks_name(state) else found


def _lacks_name(state: EdgeState) -> bool:
    return state.phase == "failed" and state.step == NAME_STEP


def _behind(one: EdgeAwaited, found: EdgeObserved, worker: Observed) -> EdgeObserved:
    """An edge cannot serve what the node of the service did not deploy."""
    if worker.phase in _REACHED or found.phase == "failed":
        return found
    if worker.phase in ("unknown", "retired"):
        return _unknown(
            one, worker.message or f"{worker.node} does not report the state of {one.service}", worker.remedy
        )
    text = f"skipped, as {one.service} did not get there on {worker.node}"
    return EdgeObserved(one.hostname, one.service, one.edge, "skipped", message=text, steps=found.steps, node=one.node)


def _unknown(one: EdgeAwaited, message: str, remedy: str) -> EdgeObserved:
    return EdgeObserved(
        one.hostname,
        one.service,
        one.edge,
        "unknown",
        code="not_observed",
        message=message,
        remedy=remedy,
        node=one.node,
    )


def failures(seen: Sequence[EdgeObserved]) -> list[EdgeObserved]:
    return [one for one in seen if one.has_failed]
