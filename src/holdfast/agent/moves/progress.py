"""How far the moves of this node are, for the report."""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from holdfast.agent.moves.declared import Moving
from holdfast.errors import HoldfastError
from holdfast.model.deployment import StepResult
from holdfast.model.move_report import MoveState
from holdfast.ports.archive import Progress

STEPS_MAX = 20  # that are over, in a report
SENDING = ("copy", "hand over")  # steps in which objects go to the other node


class MoveProgress:
    """`changed` is called when `states` changes; `way` answers how the objects of a service go."""

    def __init__(
        self,
        now_s: Callable[[], float],
        node: str,
        changed: Callable[[], None],
        way: Callable[[str], str] = lambda service: "",
    ) -> None:
        self._way = way
        self._notes: dict[str, str] = {}
        self.now_s = now_s
        self._node = node
        self._changed = changed
        self._known: dict[str, MoveState] = {}

    def of(self, moving: Moving) -> MoveState:
        known = self._known.get(moving.service)
        if known is not None and known.epoch == moving.epoch:
            return known
        role: Literal["source", "target"] = "target" if moving.target == self._node else "source"
        peer = moving.target if role == "source" else moving.source
        return MoveState(moving.service, moving.epoch, role, peer)

    def step(self, moving: Moving, step: str, note: str) -> None:
        now = self.of(moving)
        if now.step != step:
            now = replace(self._over(now), step=step, since_s=self.now_s(), done_bytes=0, total_bytes=0)
        self._notes[moving.service] = note
        self._keep(replace(now, note=self._note(moving.service), trouble="", remedy=""))

    def _over(self, state: MoveState) -> MoveState:
        if not state.step:
            return state
        took_s = round(self.now_s() - state.since_s, 3)
        way = self._way(state.service) if state.step in SENDING else ""
        steps = (*state.steps, StepResult(f"{state.step} {way}".rstrip(), "done", state.since_s, took_s))
        return replace(state, steps=steps[-STEPS_MAX:])

    def telling(self, moving: Moving) -> Callable[[Progress], None]:
        def tell(progress: Progress) -> None:
            done = {"done_bytes": progress.size_bytes, "total_bytes": progress.total_bytes}
            self._keep(replace(self.of(moving), note=self._note(moving.service), **done))

        return tell

    def met(self, moving: Moving, trouble: HoldfastError) -> None:
        self._keep(replace(self.of(moving), trouble=trouble.message, remedy=trouble.remedy))

    def end(self, moving: Moving) -> None:
        over = self._over(self.of(moving))
        self._keep(replace(over, step="", note="", done_bytes=0, total_bytes=0, trouble="", remedy=""))

    def only(self, services: set[str]) -> None:
        """Moves that the revision in force does not have are not shown any more."""
        self._known = {name: one for name, one in self._known.items() if name in services}

    def _note(self, service: str) -> str:
        return ", ".join(text for text in (self._notes.get(service, ""), self._way(service)) if text)

    def _keep(self, state: MoveState) -> None:
        if self._known.get(state.service) != state:
            self._known[state.service] = state
            self._changed()
