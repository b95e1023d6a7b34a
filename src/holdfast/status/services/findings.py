"""Findings about services that are not as applied, from the report of their node. Pure.

The hub derives them from the reports it holds; the command line derives them again from reports it verified.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.deployment import ServiceState
from holdfast.model.hub_status import StatusFinding
from holdfast.model.image_name import shorts
from holdfast.model.report import Report
from holdfast.status.services import serving

RUNTIME_AWAY = "runtime_unavailable"  # of a node

# code → remedy, unless the node reports one
ROWS: Mapping[str, str] = {
    "rollout_failed": "`holdfast logs {service}` shows its output; `holdfast rollback` goes back to what worked",
    "rollout_settling": "wait; `holdfast logs {service}` shows its output meanwhile",
    "step_failed": "holdfast logs {service}",
    "service_held": "holdfast start {service}",
    "service_unknown": "`podman info` on the node; holdfast node show {node}",
    "service_unhealthy": "holdfast logs {service}; holdfast restart {service}",
}
FIRST = "`holdfast logs {service}` shows its output; correct its file, then: holdfast deploy {service}"  # none served


def findings(node: str, report: Report, applied: Applied, now_s: float) -> Iterator[StatusFinding]:
    """Only of applied services: any other container is an orphan, which has a finding of its own."""
    for state in report.services:
        entry = applied.table.entries.get(f"service.{state.service}")
        if entry is None or entry.node is UNSET or not (entry.node == node or state.standby):
            continue
        if state.phase == "settling" and report.mode == "observe":
            continue  # the node changes nothing, and reports the difference as drift
        if state.phase == "settling" and any(one.code == RUNTIME_AWAY for one in report.findings):
            text = f"the container runtime of {node} does not answer: it is not known whether it runs"
            yield _finding("service_unknown", state, text, _since_s(report, now_s), node)
            continue
        yield from _of_state(node, state, applied, entry.containers > 0, now_s)
        if state.phase in ("converged", "failed"):
            yield from _unhealthy(node, state, report)


def _of_state(
    node: str, state: ServiceState, applied: Applied, is_active: bool, now_s: float
) -> Iterator[StatusFinding]:
    broken = next((step for step in state.steps if step.outcome == "failed"), None)
    if state.phase == "failed":
        step = state.step or (broken.name if broken else "")
        at = f": step {step!r} failed" if step else ": it failed"
        text = f"{_between(node, state, applied)}{at}{f': {state.message}' if state.message else ''}"
        yield _finding("rollout_failed", state, text, _age_s(state, now_s))
    elif state.phase == "settling":
        doing = f": step {state.step!r} is under way" if state.step else ""
        text = f"{_between(node, state, applied)}{doing}{f': {state.message}' if state.message else ''}"
        yield _finding("rollout_settling", state, text, _age_s(state, now_s))
    elif state.phase == "held" and is_active:
        yield _finding("service_held", state, f"it is stopped on {node} by an order, and stays stopped", 0.0)
    elif state.phase == "converged" and broken is not None:
        text = f"it serves on {node}, but step {broken.name!r} failed: {broken.message or state.message}"
        yield _finding("step_failed", state, text, _age_s(state, now_s))


def _between(node: str, state: ServiceState, applied: Applied) -> str:
    serving = f"serving {shorts(state.images) or 'what was there before'} (revision {state.serving_revision})"
    return (
        f"applied {_applied_images(state.service, applied)} (revision {state.applied_revision}) on {node}, "
        f"{serving if state.serving else 'serving nothing'}"
    )


def _applied_images(service: str, applied: Applied) -> str:
    try:
        return shorts(part.image for part in applied.service(service).components)
    except HoldfastError:
        return "something unreadable"  # the hub reports the damage as a finding of the ledger


def _unhealthy(node: str, state: ServiceState, report: Report) -> Iterator[StatusFinding]:
    bad = [one for one in serving.containers(state, report) if one.status in ("unhealthy", "stopped")]
    if bad:
        what = ", ".join(sorted({serving.shown(one) for one in bad}))
        yield _finding("service_unhealthy", ServiceState(state.service, "converged", ""), f"{what} on {node}", 0.0)


def _since_s(report: Report, now_s: float) -> float:
    return max(0.0, now_s - min(one.since_s for one in report.findings if one.code == RUNTIME_AWAY))


def _finding(code: str, state: ServiceState, text: str, age_s: float, node: str = "") -> StatusFinding:
    own = FIRST if code == "rollout_failed" and not state.serving else ROWS[code]
    remedy = state.remedy or own.format(service=state.service, node=node)
    return StatusFinding(code, "warning", text, remedy, f"service.{state.service}", round(age_s, 3))


def _age_s(state: ServiceState, now_s: float) -> float:
    """Since the failure, or since the start of a rollout that is under way."""
    if not state.steps:
        return 0.0
    first, last = state.steps[0], state.steps[-1]
    since_s = first.at_s if state.phase == "settling" else last.at_s + last.took_s
    return max(0.0, now_s - since_s)
