"""The seam of the agent: a keeper keeps one part of the node as the signed revision says."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.model.fleet import FleetDocument, Node
from holdfast.model.journal import Operation, StepRecord
from holdfast.model.manifest import NodeManifest
from holdfast.model.order import VerifiedOrder
from holdfast.model.revision import Entry, Tombstone

Say = Callable[[str, dict[str, object]], None]  # one event of the log: its name and its fields
Hints = Mapping[str, tuple[str, ...]]  # of the hub, unsigned: "standby", "released", "withdrawn" …


class Revision(Struct, frozen=True):
    """What this node accepted and has in force, read once."""

    number: int
    manifest: NodeManifest
    document: FleetDocument
    node: Node
    tombstones: Mapping[str, Tombstone]  # of services that were removed, by address
    awaited: Mapping[str, Entry] = {}  # services that run here once their data has come


class OrderRun(Struct, frozen=True):
    """One order that is carried out: its operation in the journal, and the steps that were done before a crash.

    `proof` is None for a request that a hub may make without a signature.
    """

    operation: Operation
    proof: VerifiedOrder | None
    steps: tuple[StepRecord, ...] = ()

    def did(self, step: str) -> bool:
        return self.note(step) is not None

    def note(self, step: str) -> str | None:
        return next((record.note for record in self.steps if record.name == step), None)


class Act(Struct, frozen=True):
    """One kind of operation, and the rule for one that a crash interrupted.

    `perform` answers in a sentence what was done, and raises HoldfastError if it was not done. It is None for an
    operation that the keeper begins without an order.
    """

    perform: Callable[[OrderRun], Awaitable[str]] | None
    after_crash: Literal["resume", "compensate"]
    why: str


# A report that is too long for a hub is cut in these stages, one after the other, until it fits.
Stage = Literal["certificates", "few_steps", "no_steps", "short_names", "ours_only", "few", "nothing"]


class Section(Protocol):
    """The fields of a report that belong to one keeper: a frozen Struct."""

    def shorter(self, stage: Stage) -> "Section":
        """What is left of it at this stage; it has been through the stages before."""
        ...


class Keeper(Protocol):
    """A part of the node that is kept as signed. It works without a hub (I-01). What else it can do is said by the
    Protocols below: wiring/keepers.py names it in the tuples of those that it has."""

    @property
    def name(self) -> str:
        """A word that no other keeper has. New facts of this keeper in the journal begin with it."""
        ...

    async def run(self) -> None:
        """Until cancelled. Trouble is a finding; a mistake of ours may end it: agent/keeping.py runs it again."""
        ...


class Follower(Protocol):
    def follow(self, revision: Revision) -> None:
        """A revision was accepted, or the agent started with one."""
        ...


class HintTaker(Protocol):
    def hinted(self, hints: Hints) -> None:
        """With every answer of a hub that knows this node. A hint is not signed: it may only hurry or delay."""
        ...


class ReportPart(Protocol):
    def section(self) -> Section:
        """Its fields of the report. The same object as before means that nothing changed: this must be cheap."""
        ...


class Settler(Protocol):
    async def settled(self) -> None:
        """Returns when no work is due or under way; at once while `run` does not run."""
        ...


class Actor(Protocol):
    @property
    def acts(self) -> Mapping[str, Act]:
        """The operations that this keeper performs, by the action of an order."""
        ...


class Keepers(Struct, frozen=True):
    """Each in the order in which they are called: of `reports`, the order of the fields in a report."""

    every: tuple[Keeper, ...]
    followers: tuple[Follower, ...]
    hint_takers: tuple[HintTaker, ...]
    reports: tuple[ReportPart, ...]
    settlers: tuple[Settler, ...]
    actors: tuple[Actor, ...]

    def acts(self) -> dict[str, Act]:
        return {kind: act for actor in self.actors for kind, act in actor.acts.items()}
