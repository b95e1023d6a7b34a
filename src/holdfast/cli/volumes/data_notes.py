"""What an update does to a service with data, for the plan: how long it stops and what is copied before.

The figures are those that the service's node reported and signed.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli.sizes import counted, size
from holdfast.model.applied import Applied
from holdfast.model.container import Guest
from holdfast.model.data_figures import DataFigures, figures_of
from holdfast.model.fleet import Service
from holdfast.model.plan import Change, Plan
from holdfast.model.revision import Candidate, Entry, Table
from holdfast.model.verified_report import VerifiedReport
from holdfast.reconcile import wanted
from holdfast.reconcile.writers import writers_of


def noted(plan: Plan, applied: Applied, nodes: Mapping[str, VerifiedReport]) -> Plan:
    """The plan with a note at each service whose data gets another writer."""
    if plan.candidate is None or not any(_may_stop(change) for change in plan.changes):
        return plan
    table = msgspec.json.decode(plan.candidate.table, type=Table)
    changes = [_noted(change, plan.candidate, table, applied, nodes) for change in plan.changes]
    return replace(plan, changes=tuple(changes))


def _may_stop(change: Change) -> bool:
    return change.address.startswith("service.") and not change.removes and change.kind != "create"


def _noted(
    change: Change, candidate: Candidate, table: Table, applied: Applied, nodes: Mapping[str, VerifiedReport]
) -> Change:
    was, becomes = applied.table.entries.get(change.address), table.entries.get(change.address)
    if not _may_stop(change) or was is None or becomes is None or was.node is UNSET:
        return change
    contents = {**candidate.blobs}
    before = _guest(change.address, was, applied.contents[was.digest])
    after = _guest(change.address, becomes, contents.get(becomes.digest) or applied.contents[becomes.digest])
    figures = figures_of(change.address.removeprefix("service."), nodes.get(was.node))
    if figures is None or not _has_new_writer(before, after):
        return change
    return replace(change, notes=(*change.notes, sentence(figures)))


def _guest(address: str, entry: Entry, text: bytes) -> Guest:
    return wanted.guest(address, entry, msgspec.json.decode(text, type=Service), "", "/srv", "")


def _has_new_writer(before: Guest, after: Guest) -> bool:
    known = {writer for part in before.parts for writer in writers_of(part)}
    with_data = [part for part in after.parts if len(part.off) < len(part.spec.mounts)]
    return any(writer not in known for part in with_data for writer in writers_of(part))


def sentence(figures: DataFigures) -> str:
    copies = f"copies {size(figures.written_bytes)} before" if figures.written_bytes else "copies nothing before"
    down = f"{figures.down_s:.1f}".removesuffix(".0")
    return (
        f"stops {figures.service} for about {down} s, {copies} "
        f"(data: {size(figures.size_bytes)} in {counted(figures.files, 'file')}; free: {size(figures.free_bytes)})"
    )
