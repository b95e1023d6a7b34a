"""The way back from the applied revision: which one `rollback` takes, and the command that takes back what failed."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Struct

from holdfast.cli.fleet.history_show import table_at
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model.applied import Applied
from holdfast.model.ids import TRUST
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning import removals
from holdfast.planning.rollback import plan_rollback
from holdfast.ports.hub_link import ConvergenceReader, HubReader

PAGE = 200  # revisions asked for at a time


class WayBack(Struct, frozen=True):
    """`remedy` "": no command is known to take back all of it."""

    remedy: str = ""


USUAL = WayBack(remedy="`holdfast rollback` returns to the last working revision")


def target(hub: HubReader, applied: Applied, number: int | None) -> tuple[int, Table]:
    """The revision of this number; without one the newest that converged and differs from the applied one."""
    if number is not None:
        if not 1 <= number < applied.head.number:
            raise Invalid(
                f"cannot roll back to revision {number}; the applied revision is {applied.head.number}",
                remedy="`holdfast history` lists the revisions before it",
                code="not_found",
            )
        return number, _table(hub, number)
    for candidate in _candidates(hub, applied.head.number - 1):
        table = _table(hub, candidate)
        if planned(table, applied, {}).changes:
            return candidate, table
    if isinstance(hub, ConvergenceReader):
        raise Conflict(
            "no earlier revision with different content is known to have converged",
            remedy="`holdfast history` lists the revisions; choose one: `holdfast rollback N`",
            code="nothing_converged",
        )
    raise Conflict(
        "every earlier revision has the same content as the applied one",
        remedy="`holdfast history` lists the revisions",
        code="nothing_to_roll_back",
    )


def _candidates(hub: HubReader, newest: int) -> Iterator[int]:
    """Newest first; only converged ones if the hub knows them. The hub's claim is not proven: the plan is shown and
    signed."""
    if not isinstance(hub, ConvergenceReader):
        yield from range(newest, 0, -1)
        return
    while newest > 0:
        yield from sorted((n for n in hub.converged(newest, PAGE) if 0 < n <= newest), reverse=True)
        newest -= PAGE


def _table(hub: HubReader, number: int) -> Table:
    return table_at(hub, hub.links(number, number)[0])


def planned(table: Table, applied: Applied, formats: Mapping[str, int]) -> Plan:
    """The plan also decides whether that revision differs, because trust is not rolled back."""
    entries = {**table.entries, TRUST: applied.table.entries[TRUST]}
    return plan_rollback(Table(dict(sorted(entries.items())), table.tombstones), applied, formats)


def found(hub: HubReader | None, service: str, is_down: bool = False) -> WayBack:
    """From a revision whose `service` failed. Works when pasted: a rollback that removes something needs the number,
    and one that would only remove the service is an undeploy. `is_down`: no version of it serves."""
    try:
        applied = hub.applied() if hub is not None else None
        if applied is None or hub is None:
            return WayBack()
        if is_down and (moved := _moved(service, applied)) is not None:
            return moved
        if applied.head.number == 1:
            return _removed(service)
        number, table = target(hub, applied, None)
        plan = planned(table, applied, {})
    except Conflict as trouble:
        return WayBack(trouble.remedy)
    except HoldfastError:
        return USUAL
    changed = [change.address for change in plan.changes]
    if f"service.{service}" not in changed:
        return WayBack()  # it would leave this service as it is
    if not plan.removals:
        return USUAL
    is_all = changed == [f"service.{service}"]
    return _removed(service) if is_all else _removing(number, plan, applied)


def _moved(service: str, applied: Applied) -> WayBack | None:
    """A rollback moves no data: what did not start where its data went is tried again, or goes back."""
    entry = applied.table.entries.get(f"service.{service}")
    if entry is None or entry.move is UNSET or entry.move.kept:
        return None
    again = f"`holdfast migrate {service} --to {entry.node}` tries the same again"
    back = f"; `holdfast migrate {service} --abort` takes the move back"
    return WayBack(again + (back if entry.move.hands_over and not entry.move.back else ""))


def _removed(service: str) -> WayBack:
    return WayBack(remedy=f"`holdfast undeploy {service}` removes it")


def _removing(number: int, plan: Plan, applied: Applied) -> WayBack:
    count, names = len(plan.removals), ", ".join(change.address for change in plan.removals)
    try:
        removals.check_planned(plan, applied, count)
    except HoldfastError:  # protected, or too many at a time
        return WayBack()
    return WayBack(
        remedy=f"`holdfast rollback --allow-removals {count}` returns to revision {number} and removes {names}"
    )
