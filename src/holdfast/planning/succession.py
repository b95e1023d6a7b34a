"""Check that a resource table may follow another: rules no signature can waive. Pure; the hub runs it at commit."""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.ids import FLEET, TRUST
from holdfast.model.plan import Change, covered
from holdfast.model.revision import Table
from holdfast.model.rules import NEWEST, Rules
from holdfast.planning import pairs, removals
from holdfast.planning.diff import changes, grade_of
from holdfast.planning.documents import removals_max
from holdfast.planning.kinds.kind import Proposal, settings_of
from holdfast.planning.soundness import check_entry, check_settings, check_table
from holdfast.planning.table import tombstones
from holdfast.planning.unsound import Unsound


class Judged(Struct, frozen=True):
    """The result of the step from one table to the next."""

    changes: tuple[Change, ...]
    grade: Grade
    removals: tuple[str, ...]

    @property
    def covers(self) -> tuple[str, ...]:
        """Everything that the scope of its signers must cover."""
        return covered(self.changes)


def judge(
    before: Table,
    after: Table,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    number: int,
    detailed: bool = False,
    rules: Rules = NEWEST,
) -> Judged:
    """Raise for what no grade allows; else return what changed and which grade must have signed, by these rules."""
    if FLEET not in after.entries or TRUST not in after.entries:
        raise Unsound("the table lacks the fleet or the trust resource")
    if after.tombstones != tombstones(before, after.entries, number):
        raise Unsound("its tombstones do not record exactly what was removed")
    check_table(after)
    fleet = settings_of(after, new)
    for address, entry in after.entries.items():
        if before.entries.get(address) != entry:
            check_entry(Proposal(address, before, after, new, fleet))
    if before.entries.get(FLEET) != after.entries[FLEET]:
        check_settings(before, after, new, fleet)
    pairs.check(before, after, new)
    found = changes(before, after, old, new, {}, detailed, rules)
    if not found:
        raise Unsound("it changes nothing")
    gone = tuple(change for change in found if change.removes)
    if gone:
        removals.check(gone, before, removals_max(old, before), len(gone))
    demands = tuple(demand for change in found for demand in change.demands)
    return Judged(found, grade_of(demands), tuple(change.address for change in gone))
