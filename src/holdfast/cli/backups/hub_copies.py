"""The file of the hub on storage targets, as the node of the hub reports it: for `backup list` and `status`."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from holdfast.cli.sizes import size
from holdfast.cli.timestamps import rfc3339
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_report import BackupState, BackupStates
from holdfast.model.duration import aged
from holdfast.model.verified_report import VerifiedReport
from holdfast.status import backup_copies

NONE = (
    "The hub: no copy of its state is kept elsewhere; a node with the role hub keeps one on a [[storage]] target "
    "(docs/guides/disaster.md)"
)


class HubCopy(Struct, frozen=True):
    """What one node of the hub keeps. `elsewhere`: targets on another machine that have the newest one."""

    node: str
    state: BackupState
    targets: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def name(self) -> str:
        return backup_key.of_hub(self.node)


def found(applied: Applied, nodes: Mapping[str, VerifiedReport]) -> Iterator[HubCopy]:
    """An old report counts: what was stored does not go away."""
    for node in sorted(applied.table.of_kind("node")):
        report = nodes.get(node)
        section = report.section(BackupStates) if report is not None else None
        for state in section.backups if section is not None else ():
            if state.service == backup_key.of_hub(node):
                newest = state.last.sequence if state.last is not None else -1
                targets = tuple(one.target for one in state.copies if newest in one.held)
                yield HubCopy(node, state, targets, backup_copies.elsewhere(state, is_on_hub=True))


def lines(applied: Applied, nodes: Mapping[str, VerifiedReport], now_s: float) -> Iterator[str]:
    copies = list(found(applied, nodes))
    for one in copies:
        yield f"The hub: {_words(one, now_s)}"
    if not copies:
        yield NONE


def documents(applied: Applied, nodes: Mapping[str, VerifiedReport]) -> list[dict[str, Any]]:
    return [
        {
            "service": one.name,
            "node": one.node,
            "id": one.state.last.id if one.state.last is not None else None,
            "made": rfc3339(one.state.last.made_s) if one.state.last is not None else None,
            "size_bytes": one.state.last.size_bytes if one.state.last is not None else None,
            "stale": one.state.stale,
            "targets": list(one.targets),
            "elsewhere": list(one.elsewhere),
        }
        for one in found(applied, nodes)
    ]


def _words(one: HubCopy, now_s: float) -> str:
    last = one.state.last
    if last is None:
        words = f"{one.node} keeps no copy of its state yet"
    else:
        words = f"{one.name} made {aged(max(now_s - last.made_s, 0.0))} ago, {size(last.size_bytes)}, on "
        words += ", ".join(one.targets) or "no target"
        if not one.elsewhere:
            words += "; on no other machine, so it counts as none"
    return f"{words}; STALE" if one.state.stale else words
