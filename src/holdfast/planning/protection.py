"""Volumes of the applied revision that no backup holds, or not all of them. Pure; reads services, no disk."""

from collections.abc import Collection, Mapping
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


def unprotected(applied: Applied, backups: Mapping[str, Collection[str]]) -> tuple[Unprotected, ...]:
    """`backups`: services whose node reports a backup, and the targets on other machines that have it. A service whose
    content is damaged is left out: that is a finding of the ledger."""
    found: list[Unprotected] = []
    for name, entry in sorted(applied.table.of_kind("service").items()):
        try:
            service = applied.service(name)
        except Corrupt:
            continue
        node = "" if entry.node is UNSET else entry.node
        for one in coverage.of_service(name, service):
            why = _why(one, backups.get(name))
            if why is not None:
                found.append(Unprotected(name, one.component, one.volume, node, one.protect, why))
    return tuple(found)


def _why(one: Covered, elsewhere: Collection[str] | None) -> Why | None:
    if one.extent == "none":
        return "declared" if one.protect else "outside"
    if elsewhere is None:
        return "no_backup"
    if not elsewhere:
        return "same_machine"
    return "partial" if one.extent == "partial" else None
