"""How far the move of a service with its data is, by the verified reports of its two nodes. Pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.model.deployment import StepResult
from holdfast.model.move_report import MoveState, MoveStates
from holdfast.model.revision import Entry, Table
from holdfast.model.size import size

if TYPE_CHECKING:  # only a type: a command starts sooner without this module
    from holdfast.model.verified_report import VerifiedReport

# arrived: the data is at the target. unknown: the target reports nothing about this move.
Phase = Literal["moving", "arrived", "unknown"]


class MoveAwaited(Struct, frozen=True):
    """`source` "" if that node takes no part: the data comes from a backup."""

    service: str
    epoch: int
    source: str
    target: str

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset({self.source, self.target} - {""})


class MoveObserved(Struct, frozen=True, omit_defaults=True):
    service: str
    source: str
    target: str
    phase: Phase
    node: str = ""  # whose step it is
    step: str = ""
    note: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    handed_over: bool = False
    message: str = ""  # what keeps it from going on
    remedy: str = ""
    steps: tuple[tuple[str, StepResult], ...] = ()  # node, step; by time

    @property
    def is_settled(self) -> bool:
        return self.phase != "moving"

    @property
    def is_untold(self) -> bool:
        """No report says how far it is: the newest one may be on its way."""
        return self.phase != "arrived" and not self.step and not self.message

    @property
    def doing(self) -> str:
        """One line for people."""
        far = f", {size(self.done_bytes)} of {size(self.total_bytes)}" if self.total_bytes else ""
        if self.phase == "unknown" and not self.step:
            return f"{self.target} has not reported about it yet"
        return f"{self.step or 'not begun'}{f' ({self.note}{far})' if self.note else far}"

    @property
    def words(self) -> str:
        """Both nodes, how far it is, and what keeps it from going on."""
        begun = f"from {self.source}" if self.source else "with its backup"
        why = f"; it waits: {self.message}" if self.message else ""
        return f"{self.service} {begun} to {self.target}: {self.doing}{why}"


def moves_of(table: Table) -> dict[str, MoveAwaited]:
    """By service: the last move of its data in this table. It may be over."""
    found = {name: _awaited(name, entry) for name, entry in table.of_kind("service").items()}
    return {name: one for name, one in found.items() if one is not None}


def awaited(before: Table, after: Table) -> tuple[MoveAwaited, ...]:
    """Moves that begin with this step."""
    known = moves_of(before)
    return tuple(one for name, one in sorted(moves_of(after).items()) if known.get(name) != one)


def given_up(before: Table, after: Table) -> frozenset[str]:
    """Nodes whose copy a move of this step does not ask for: the service starts with another one."""
    was = before.of_kind("service")
    entries = {name: entry for name, entry in after.of_kind("service").items() if entry.move is not UNSET}
    new = [entry for name, entry in entries.items() if name not in was or was[name].move != entry.move]
    moves = (entry.move for entry in new if entry.move is not UNSET and entry.move.source != entry.node)
    return frozenset(move.source for move in moves if move.backup or move.kept)


def under_way(table: Table, nodes: "Mapping[str, VerifiedReport]") -> tuple[MoveAwaited, ...]:
    """Moves of this table that are not over, as far as the target reports."""
    return tuple(one for _, one in sorted(moves_of(table).items()) if judge(one, nodes).phase == "moving")


def homes(table: Table, nodes: "Mapping[str, VerifiedReport]") -> dict[str, str]:
    """By service: the node that has its data, as far as it is known. A move under way has not brought it yet."""
    found = {name: str(entry.node) for name, entry in table.of_kind("service").items() if entry.node is not UNSET}
    return found | {one.service: one.source for one in under_way(table, nodes) if one.source}


def _awaited(name: str, entry: Entry) -> MoveAwaited | None:
    if entry.move is UNSET or entry.move.kept or entry.node is UNSET:
        return None
    return MoveAwaited(name, entry.epoch, "" if entry.move.backup else entry.move.source, entry.node)


def judge(one: MoveAwaited, nodes: "Mapping[str, VerifiedReport]") -> MoveObserved:
    into, out = state_of(one, one.target, nodes), state_of(one, one.source, nodes)
    phase: Phase = "unknown" if into is None else "arrived" if into.arrived else "moving"
    steps = [(node, step) for node, state in ((one.source, out), (one.target, into)) if state for step in state.steps]
    found = MoveObserved(
        service=one.service,
        source=one.source,
        target=one.target,
        phase=phase,
        handed_over=out is not None and out.handed_over,
        steps=tuple(sorted(steps, key=lambda pair: pair[1].at_s)),
    )
    active = _active(out, into)
    if phase == "arrived" or active is None:
        return found
    state = active if active.trouble or not (into and into.trouble) else into
    return replace(
        found,
        node=one.source if state.role == "source" else one.target,
        step=state.step,
        note=state.note,
        done_bytes=state.done_bytes,
        total_bytes=state.total_bytes,
        message=state.trouble,
        remedy=state.remedy,
    )


def state_of(one: MoveAwaited, node: str, nodes: "Mapping[str, VerifiedReport]") -> MoveState | None:
    """What this node reports about this move."""
    report = nodes.get(node)
    section = report.section(MoveStates) if report is not None else None
    for state in section.moves if section is not None else ():
        if (state.service, state.epoch) == (one.service, one.epoch):
            return state
    return None


def is_lost(one: MoveAwaited, nodes: "Mapping[str, VerifiedReport]") -> bool:
    """The source knows that the target took all, and the target waits for it: the state of the target was put back."""
    into, out = state_of(one, one.target, nodes), state_of(one, one.source, nodes)
    was_taken = out is not None and out.handed_over and not out.step
    return was_taken and into is not None and not into.arrived and not any(nodes[node].is_old for node in one.nodes)


def _active(out: MoveState | None, into: MoveState | None) -> MoveState | None:
    """The node that works: the source until it handed over, except while it waits for the target."""
    if out is None or into is None:
        return out or into
    waits = out.handed_over or out.step == "catch up"
    return into if waits and into.step else out
