"""The moves of this node in its report."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Stage
from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations, Moving
from holdfast.agent.moves.progress import MoveProgress
from holdfast.model.move_report import MoveState
from holdfast.reconcile import moves as rules


class MovesReport(Struct, frozen=True, omit_defaults=True):
    moves: tuple[MoveState, ...] = ()
    bare: tuple[str, ...] = ()

    def shorter(self, stage: Stage) -> "MovesReport":
        return MovesReport() if stage == "nothing" else self


class Section:
    def __init__(self, declared: Declarations, books: Books, progress: MoveProgress) -> None:
        self._declared = declared
        self._books = books
        self._progress = progress

    def now(self) -> MovesReport:
        """What the revision in force does not have is not shown any more."""
        every = {**self._declared.out, **self._declared.into}
        self._progress.only(set(every))
        awaited = self._declared.awaited.items()
        bare = tuple(name for name, entry in sorted(awaited) if self._books.is_bare(name, entry.epoch))
        return MovesReport(tuple(self._state(moving) for _, moving in sorted(every.items())), bare)

    def _state(self, moving: Moving) -> MoveState:
        out, into = self._books.out(moving.service), self._books.into(moving.service)
        is_out = out is not None and out.epoch == moving.epoch
        return replace(
            self._progress.of(moving),
            passes=out.passes if out is not None and is_out else 0,
            handed_over=out is not None and is_out and bool(out.handover),
            arrived=moving.service in self._declared.into and not rules.awaits(moving.entry, into),
        )
