"""A plan: what an apply would change, why, and who must sign. A value: printed, hashed, signed, applied."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.revision import Candidate, Head

ChangeKind = Literal["create", "update", "move", "retire", "destroy"]


class FieldChange(Struct, frozen=True):
    """One changed field; `before` or `after` is None where the field was or becomes absent."""

    path: str
    before: Any
    after: Any


class Demand(Struct, frozen=True):
    """The grade needed to sign this change, and the reason as text."""

    grade: Grade
    reason: str
    gives_up_data: bool = False


class Blast(Struct, frozen=True, omit_defaults=True):
    """What a change affects beyond its own address."""

    nodes: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()
    containers: int = 0
    volumes_kept: tuple[str, ...] = ()


class Change(Struct, frozen=True):
    address: str
    kind: ChangeKind
    node: str  # "" where it has no placement
    grade: Grade
    why: str
    demands: tuple[Demand, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    blast: Blast = Blast()
    moved_from: str = ""
    removes: bool = False  # the address leaves the table
    notes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()  # names and places beyond its own that it takes: `name:X`, `node:X`, `worker:X`

    @property
    def covers(self) -> tuple[str, ...]:
        """Everything that the scope of a signer must cover."""
        return (self.address, *self.claims)


class Plan(Struct, frozen=True):
    """`candidate` is exactly the revision that would be signed; None when nothing changes."""

    base: Head
    changes: tuple[Change, ...]
    grade: Grade
    candidate: Candidate | None
    warnings: tuple[str, ...] = ()
    nodes_touched: tuple[str, ...] = ()

    @property
    def removals(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.removes)


def covered(changes: Iterable[Change]) -> tuple[str, ...]:
    """Everything that the scope of a signer of these changes must cover."""
    return tuple(one for change in changes for one in change.covers)
