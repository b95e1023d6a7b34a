"""Where the newest backup of a service lies, as its node reports it; copies on the machine of the data count as none.
Pure."""

from collections.abc import Iterator, Mapping

from holdfast.model.applied import Applied
from holdfast.model.backup_report import BackupState, BackupStates
from holdfast.model.storage_target import HUB
from holdfast.model.verified_report import VerifiedReport
from holdfast.status import moves


def elsewhere(state: BackupState, is_on_hub: bool) -> tuple[str, ...]:
    """Targets that hold the newest backup, apart from those on the machine of the data."""
    if state.last is None:
        return ()
    if not state.copies:  # the hub is the only target
        return () if is_on_hub else (state.last.target,)
    newest = state.last.sequence
    return tuple(one.target for one in state.copies if newest in one.held and not one.same_machine)


def of_fleet(nodes: Mapping[str, VerifiedReport], applied: Applied) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each service with a backup, and where its newest one lies elsewhere. An old report counts: a backup stays."""
    for name, home in sorted(moves.homes(applied.table, nodes).items()):
        report = nodes.get(home)
        section = report.section(BackupStates) if report is not None else None
        for state in section.backups if section is not None else ():
            if state.service == name and state.last is not None:
                yield name, elsewhere(state, "hub" in applied.node(home).roles)


def only_at_hub(nodes: Mapping[str, VerifiedReport], applied: Applied) -> list[str]:
    """Services whose only copy a hub could delete (design.md)."""
    return [name for name, targets in of_fleet(nodes, applied) if targets == (HUB,)]
