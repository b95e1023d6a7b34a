"""Plan to retire one address. Pure."""

from holdfast.errors import Conflict, Invalid
from holdfast.model.applied import Applied, table_of
from holdfast.model.nearest import hint
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning.step import between
from holdfast.planning.table import without


def plan_undeploy(address: str, applied: Applied | None) -> Plan:
    """Retire one address, whether or not its file is still there."""
    if applied is None or address not in applied.table.entries:
        raise _nothing_to_undeploy(address, table_of(applied))
    return between(without(applied.table, address, applied.head.number + 1), applied, {}, {}, (), {})


def _nothing_to_undeploy(address: str, table: Table) -> Conflict | Invalid:
    """An address that is already gone gets another error than an unknown name."""
    stone = table.tombstones.get(address)
    if stone is not None:
        return Conflict(
            f"{address} was removed in revision {stone.removed_in} already",
            remedy="`holdfast retired` lists the data it left",
            code="not_applied",
        )
    known = sorted(known for known in table.entries if known.startswith("service."))
    return Invalid(
        f"{address} is not applied, so it cannot be undeployed",
        remedy=hint(address, known) + f"applied services are: {', '.join(known[:20]) or 'none'}",
        code="not_applied",
    )
