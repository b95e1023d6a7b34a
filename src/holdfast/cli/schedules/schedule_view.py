"""The schedules of the applied revision, each with what its node reports about it."""

from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Invalid
from holdfast.model.schedule import RunResult, Schedule, ScheduleState, ScheduleStates
from holdfast.model.verified_report import VerifiedReport


class ScheduleView(Struct, frozen=True):
    """`state` is None if its node does not report it, or no report is proven."""

    service: str
    schedule: Schedule
    node: str
    state: ScheduleState | None
    verified: bool


def views(view: FleetView) -> list[ScheduleView]:
    found = []
    for name, entry in sorted(view.applied.table.of_kind("service").items()):
        node = entry.node if entry.node is not UNSET else ""
        one = view.nodes.get(node)
        for schedule in view.applied.service(name).schedule:
            state = state_of(one, name, schedule.name)
            is_recent = one is not None and one.verified
            found.append(ScheduleView(name, schedule, node, state, state is not None and is_recent))
    return found


def state_of(one: VerifiedReport | None, service: str, name: str) -> ScheduleState | None:
    section = one.section(ScheduleStates) if one is not None else None
    states = section.schedules if section is not None else ()
    return next((state for state in states if (state.service, state.name) == (service, name)), None)


def named(found: list[ScheduleView], service: str, name: str, view: FleetView) -> ScheduleView:
    service = service.removeprefix("service.")
    mine = [one for one in found if one.service == service]
    if not mine and f"service.{service}" not in view.applied.table.entries:
        raise fleet_view.no_service(service, sorted(view.applied.table.of_kind("service")))
    for one in mine:
        if one.schedule.name == name:
            return one
    from difflib import get_close_matches

    names = [one.schedule.name for one in mine]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise Invalid(
        f"{service} has no schedule {name!r}",
        remedy=f"{hint}schedules of {service} are: {', '.join(names) or 'none'}",
        code="not_found",
    )


# ---- for programs


def document(one: ScheduleView) -> dict[str, Any]:
    state = one.state
    return {
        "service": one.service,
        "name": one.schedule.name,
        "node": one.node or None,
        "cron": one.schedule.cron,
        "timezone": one.schedule.timezone,
        "next": rfc3339(state.next_s) if state is not None and state.next_s else None,
        "idle": state.idle if state is not None else "",
        "running": rfc3339(state.running_s) if state is not None and state.running_s else None,
        "queued": state.queued if state is not None else 0,
        "missed": state.missed if state is not None else 0,
        "skipped": state.skipped if state is not None else 0,
        "last": run_document(state.last) if state is not None and state.last is not None else None,
        "verified": one.verified,
    }


def run_document(last: RunResult) -> dict[str, Any]:
    return {
        "due": rfc3339(last.due_s),
        "started": rfc3339(last.started_s),
        "exit_code": last.exit_code,
        "duration_s": last.duration_s,
        "outcome": last.outcome,
        "attempts": last.attempts,
        "message": last.message,
    }
