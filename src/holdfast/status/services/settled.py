"""Has a service that a command changed settled? Judged by the verified report of its node. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.model.deployment import ServiceState, StepResult, deployment_of
from holdfast.model.image_name import shorts
from holdfast.model.report import Report
from holdfast.model.revision import Table
from holdfast.status.services import serving as containers

if TYPE_CHECKING:  # only a type: a command starts sooner without this module
    from holdfast.model.verified_report import VerifiedReport

# settling, converged, failed, held: as the node reports. retired: nothing of it is left there. parked: it waits for a
# signature. unknown: the node reports nothing about it, so that the command does not wait for it.
Phase = Literal["settling", "converged", "failed", "held", "retired", "parked", "unknown"]

ILL = "service_unhealthy"  # code of one that was deployed, and whose containers do not work


class ServiceAwaited(Struct, frozen=True):
    """`deployment` "" means that nothing of the service may be left there."""

    service: str
    node: str
    deployment: str = ""
    names: tuple[str, ...] = ()  # internal names that it must have there


class Observed(Struct, frozen=True, omit_defaults=True):
    service: str
    node: str
    phase: Phase
    step: str = ""
    code: str = ""
    message: str = ""
    remedy: str = ""
    steps: tuple[StepResult, ...] = ()
    serves: str = ""  # images that still serve, for people
    ails: str = ""  # what is wrong with the containers that should serve

    @property
    def is_settled(self) -> bool:
        return self.phase != "settling"

    @property
    def has_failed(self) -> bool:
        """Also if it serves: a step after the switch may have failed (M-46)."""
        return self.phase == "failed" or (self.phase == "converged" and any(s.outcome == "failed" for s in self.steps))


def awaited(before: Table, after: Table) -> tuple[ServiceAwaited, ...]:
    """Every service whose entry changed; and its former node, if the service left it."""
    found = []
    for address in sorted(before.entries.keys() | after.entries.keys()):
        if not address.startswith("service."):
            continue
        name = address.removeprefix("service.")
        was, becomes = before.entries.get(address), after.entries.get(address)
        if was == becomes:
            continue
        if becomes is not None and becomes.node is not UNSET:
            found.append(ServiceAwaited(name, becomes.node, deployment_of(becomes), becomes.names))
        if was is not None and was.node is not UNSET and (becomes is None or becomes.node != was.node):
            found.append(ServiceAwaited(name, was.node))
    return tuple(found)


def applied_now(table: Table, only: str | None = None) -> tuple[ServiceAwaited, ...]:
    """Every applied service, or the one at this address: for a command that finds nothing to change."""
    empty = Table({})
    wanted = {a: e for a, e in table.entries.items() if only is None or a == only}
    return awaited(empty, Table(wanted))


def judge(one: ServiceAwaited, verified: "VerifiedReport | None", has_accepted: bool) -> Observed:
    """`has_accepted`: the node signed for the revision in question, or for one after it."""
    if verified is None or not verified.key:
        return _unknown(one, f"no machine joined as {one.node} yet", f"holdfast node invite {one.node}")
    report = verified.report
    if report is None or not has_accepted:
        return Observed(one.service, one.node, "settling")
    if report.mode == "observe":
        return _unknown(one, f'{one.node} only observes (reconcile = "observe")', "holdfast status")
    state = next((state for state in report.services if state.service == one.service), None)
    return _left(one, state, report) if not one.deployment else _deployed(one, state, report)


def says_nothing(verified: "VerifiedReport | None") -> bool:
    """An agent that reports no runtime and no service runs none: there is nothing to wait for."""
    return (
        verified is not None
        and verified.report is not None
        and not (verified.report.runtime or verified.report.services)
    )


def unwatched(one: ServiceAwaited) -> Observed:
    text = f"{one.node} reports no services: its agent has no container runtime"
    return _unknown(one, text, f"holdfast node show {one.node}")


def unheard(one: ServiceAwaited, for_s: float) -> Observed:
    text = f"no contact with {one.node} for {for_s:.0f} s, so the state of {one.service} there is unknown"
    return _unknown(one, text, "look at the machine and its network; holdfast status")


def _unknown(one: ServiceAwaited, message: str, remedy: str) -> Observed:
    return Observed(one.service, one.node, "unknown", code="not_observed", message=message, remedy=remedy)


def _left(one: ServiceAwaited, state: ServiceState | None, report: Report) -> Observed:
    left = [container for container in report.containers if container.service == one.service]
    steps = next((gone.steps for gone in report.left if gone.service == one.service), ())
    if state is None and not left and not _running(steps):
        return Observed(one.service, one.node, "retired", steps=steps)
    return _parked(one, report) or Observed(one.service, one.node, "settling", _running(steps), steps=steps)


def _deployed(one: ServiceAwaited, state: ServiceState | None, report: Report) -> Observed:
    if state is None or state.applied != one.deployment:
        return _parked(one, report) or Observed(one.service, one.node, "settling")
    if state.phase == "settling":
        waits = _parked(one, report)
        step = _under_way(state)
        return waits or _seen(one, state, step)
    seen = replace(_seen(one, state, state.step or _failed_step(state)), serves=serving(state))
    if seen.code == "needs_operator":
        return replace(seen, phase="parked")
    ill = containers.idle if state.phase == "failed" else containers.ill
    ails = ", ".join(containers.shown(each) for each in ill(state, report))
    if not ails or state.phase == "held":
        return seen
    if state.phase == "failed":
        return replace(seen, ails=ails)
    return replace(seen, phase="failed", code=ILL, message=ails, remedy=f"holdfast logs {one.service}")


def _seen(one: ServiceAwaited, state: ServiceState, step: str) -> Observed:
    return Observed(
        service=one.service,
        node=one.node,
        phase=state.phase,
        step=step,
        code=state.code,
        message=state.message,
        remedy=state.remedy,
        steps=state.steps,
    )


def _parked(one: ServiceAwaited, report: Report) -> Observed | None:
    for parked in report.parked:
        if parked.address == f"service.{one.service}":
            return Observed(one.service, one.node, "parked", "", "needs_operator", parked.reason, parked.remedy)
    return None


def _under_way(state: ServiceState | None) -> str:
    if state is None:
        return ""
    return state.step or _running(state.steps)


def _running(steps: Sequence[StepResult]) -> str:
    return next((step.name for step in steps if step.outcome == "running"), "")


def _failed_step(state: ServiceState) -> str:
    return next((step.name for step in state.steps if step.outcome == "failed"), "")


def serving(state: ServiceState) -> str:
    if not state.serving:
        return "nothing"
    return f"{shorts(state.images) or 'the previous version'} (revision {state.serving_revision})"


def failures(seen: Sequence[Observed]) -> list[Observed]:
    return [one for one in seen if one.has_failed]
