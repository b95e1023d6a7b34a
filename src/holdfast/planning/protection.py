"""Volumes of the applied revision that no backup holds, or not all of them. Pure; reads services, no disk."""

from collections.abc import Set
from typing import Literal

from msgspec import UNSET, Struct

from holdfast.errors import Corrupt
from holdfast.model import coverage
from holdfast.model.applied import Applied
from holdfast.model.coverage import Covered

# declared: protect = "none" or "own:NAME". no_backup: none was made yet, or its node does not report one. outside: a
# path outside the service's directory. partial: backups hold the small default set of files. same_machine: backups are
# stored on the machine of the data only.
Why = Literal["declared", "no_backup", "outside", "partial", "same_machine"]


class Unprotected(Struct, frozen=True):
    """One volume. `volume` is its name, or HOST:CONTAINER for a path of the host."""

    service: str
    component: str
    volume: str
    node: str
    protect: str
    why: Why = "no_backup"


def unprotected(
    applied: Applied, backed_up: Set[str] = frozenset(), elsewhere: Set[str] = frozenset()
) -> tuple[Unprotected, ...]:
    """`backed_up`: services whose node reports a backup; `elsewhere`: those with one on another machine. A service
    whose content is damaged is left out: that is a finding of the ledger."""
    found: list[Unprotected] = []
    for name, entry in sorted(applied.table.of_kind("service").items()):
        try:
            service = applied.service(name)
        except Corrupt:
            continue
        node = "" if entry.node is UNSET else entry.node
        for one in coverage.of_service(name, service):
            why = _why(one, name in backed_up, _is_hub(applied, node) and name not in elsewhere)
            if why is not None:
                found.append(Unprotected(name, one.component, one.volume, node, one.protect, why))
    return tuple(found)


def _is_hub(applied: Applied, node: str) -> bool:
    try:
        return "hub" in applied.node(node).roles
    except (Corrupt, KeyError):
        return False


def _why(one: Covered, is_backed_up: bool, is_hub: bool) -> Why | None:
    if one.extent == "none":
        return "declared" if one.protect else "outside"
    if not is_backed_up:
        return "no_backup"
    if is_hub:
        return "same_machine"
    return "partial" if one.extent == "partial" else None
