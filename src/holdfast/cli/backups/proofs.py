"""The last backup and the last proof of each service, for `holdfast status` (I-32)."""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.cli.backups import drill_view
from holdfast.cli.timestamps import rfc3339
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_report import BackupState, BackupStates
from holdfast.model.drill import DrillState
from holdfast.model.duration import aged
from holdfast.model.verified_report import VerifiedReport
from holdfast.status import moves

CUSTODY = ("sealed", "hub")
SHOWN = 10  # --json has all of them

Row = tuple[str, str, BackupState, DrillState | None]  # service, node


def lines(applied: Applied, nodes: Mapping[str, VerifiedReport], now_s: float) -> Iterator[str]:
    rows = list(_rows(applied, nodes))
    if rows:
        words = [_words(name, state, drill, now_s) for name, _, state, drill in rows[:SHOWN]]
        more = [f"{len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        yield f"Backups: {'; '.join([*words, *more])}"
        held = {custody: [name for name, *_ in rows if _custody(applied, name) == custody] for custody in CUSTODY}
        yield f"Custody of their keys: {', '.join(f'{one} {len(names)}' for one, names in held.items() if names)}"


def documents(applied: Applied, nodes: Mapping[str, VerifiedReport]) -> list[dict[str, Any]]:
    return [
        {
            "service": name,
            "node": node,
            "last_backup": rfc3339(state.last.made_s) if state.last is not None else None,
            "stale": state.stale,
            "custody": _custody(applied, name),
            **drill_view.document(drill),
        }
        for name, node, state, drill in _rows(applied, nodes)
    ]


def _rows(applied: Applied, nodes: Mapping[str, VerifiedReport]) -> Iterator[Row]:
    """An old report counts: what was made and proven does not go away."""
    homes = sorted(moves.homes(applied.table, nodes).items())
    homes += [(backup_key.of_node(name), name) for name in sorted(applied.table.of_kind("node"))]
    for name, node in homes:
        one = nodes.get(node)
        section = one.section(BackupStates) if one is not None else None
        for state in section.backups if section is not None else ():
            if one is not None and state.service == name:
                yield name, node, state, drill_view.of(one, name)


def _custody(applied: Applied, service: str) -> str:
    """As applied (C-19). A plan refuses "hub": an older release may have applied it, and it has no effect."""
    return CUSTODY[0] if backup_key.node_of(service) else applied.service(service).custody


def _words(name: str, state: BackupState, drill: DrillState | None, now_s: float) -> str:
    made = f"made {aged(max(now_s - state.last.made_s, 0.0))} ago" if state.last is not None else "none yet"
    proven = "" if backup_key.node_of(name) else f", last proven {drill_view.words(drill, now_s)}"
    return f"{name} {made}{proven}"
