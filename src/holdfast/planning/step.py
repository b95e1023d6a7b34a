"""The plan for the step from the applied table to another one. Pure."""

from collections.abc import Mapping

from holdfast.model.applied import Applied, affected, head_of, table_of
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning import formats, pairs
from holdfast.planning.compile import Compiled, compile_revision
from holdfast.planning.contents import layered
from holdfast.planning.diff import changes, grade_of
from holdfast.planning.placement import Placed


def between(
    table: Table,
    applied: Applied | None,
    fresh: Mapping[str, bytes],
    placed: Mapping[str, Placed],
    warnings: tuple[str, ...],
    reads: Mapping[str, int],
) -> Plan:
    """`reads`: node → the newest format that its verified pulse names."""
    before = table_of(applied)
    if applied is not None and before.entries == table.entries:
        return Plan(applied.head, (), "apply", None, warnings)
    old = applied.contents if applied else {}
    formats.require(table, layered(fresh, old), applied, reads)
    pairs.require(before, table, layered(fresh, old))
    compiled = compile_revision(table, applied, fresh)
    found = changes(before, table, old, layered(compiled.candidate.blobs, old), placed)
    grade = grade_of(tuple(demand for change in found for demand in change.demands))
    return Plan(head_of(applied), found, grade, compiled.candidate, warnings, touched(compiled, applied))


def touched(compiled: Compiled, applied: Applied | None) -> tuple[str, ...]:
    """Nodes whose manifest differs from the applied one; a change of trust concerns them all."""
    before = applied.header.manifests if applied and applied.header.trust == compiled.header.trust else {}
    return affected(before, compiled.header.manifests)
