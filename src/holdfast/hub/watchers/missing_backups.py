"""Backups that nodes report as made, and that the store of this hub does not have: it was lost, or put back."""

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.hub.backups.store import BackupStore
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupState, BackupStates
from holdfast.model.hub_status import StatusFinding
from holdfast.model.storage_target import HUB

MISSING = "backup_missing"

_states = msgspec.json.Decoder(BackupStates)


class MissingBackups:
    """A source of findings. The last backup of each service is looked up on the disk."""

    def __init__(self, registry: Registry, store: BackupStore) -> None:
        self._registry = registry
        self._store = store

    def findings(self, now_s: float) -> Iterable[StatusFinding]:
        applied = self._registry.applied
        if applied is None:
            return []
        reported = {
            key: (member.name, state)
            for member in list(self._registry.members.values())
            for key, state in _stored_here(member, applied.fleet_id)
        }
        if not reported:
            return []
        present = self._store.present(reported.keys())
        return [_finding(*reported[key]) for key in sorted(reported.keys() - present)]


def _stored_here(member: Member, fleet: str) -> Iterator[tuple[str, BackupState]]:
    """From the report that its newest pulse names."""
    if member.report is None or member.pulse_report != member.report_digest:
        return
    for state in _states.decode(member.report_bytes).backups:
        last = state.last
        if last is not None and (last.target == HUB or _has_copy(state, last.sequence)):
            yield backup_key.receipt_of(fleet, state.service, last.sequence, last.digest), state


def _has_copy(state: BackupState, sequence: int) -> bool:
    return any(one.target == HUB and sequence in one.held for one in state.copies)


def _finding(node: str, state: BackupState) -> StatusFinding:
    assert state.last is not None
    name = state.service
    text = f"{node} made backup {state.last.id} of {name}, and the store of this hub does not have it"
    return StatusFinding(
        MISSING,
        "error",
        text,
        remedy=f"`holdfast backup {name} --wait` makes another one; `holdfast backup list` shows what is there",
        address=backup_key.subject(name),
    )
