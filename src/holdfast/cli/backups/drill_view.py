"""What nodes report about drills, and how it is shown: *last proven* with its age."""

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.timestamps import rfc3339
from holdfast.model.drill import DrillResult, DrillState, DrillStates
from holdfast.model.duration import aged
from holdfast.model.verified_report import VerifiedReport

NEVER = "never"


def of(report: VerifiedReport, service: str) -> DrillState | None:
    section = report.section(DrillStates)
    return next((one for one in section.drills if one.service == service), None) if section is not None else None


def states(view: FleetView) -> dict[str, DrillState]:
    """By service, as the node of each reports it."""
    homes = ((name, entry.node) for name, entry in view.applied.table.of_kind("service").items())
    found = ((name, of(view.nodes[node], name)) for name, node in homes if node in view.nodes)
    return {name: state for name, state in found if state is not None}


def words(state: DrillState | None, now_s: float) -> str:
    """After "last proven"."""
    if state is None or not state.proven_s:
        return NEVER
    return f"{aged(max(now_s - state.proven_s, 0.0))} ago"


def red(state: DrillState | None) -> str:
    """What the last drill found wrong; "" if it found nothing."""
    last = state.last if state is not None else None
    return f"the last drill {last.verdict}: {last.reason}" if last is not None and last.verdict != "verified" else ""


def document(state: DrillState | None) -> dict[str, object]:
    last = state.last if state is not None else None
    return {
        "last_proven": rfc3339(state.proven_s) if state is not None and state.proven_s else None,
        "proven_backup": state.proven[:16] if state is not None and state.proven else None,
        "drill": _last(last) if last is not None else None,
        "next_drill": rfc3339(state.next_s) if state is not None and state.next_s else None,
    }


def _last(result: DrillResult) -> dict[str, object]:
    return {
        "verdict": result.verdict,
        "at": rfc3339(result.at_s),
        "backup": result.id or None,
        "reason": result.reason or None,
    }
