"""What there is to do for the moves of this node."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from holdfast.agent.keeper import Revision
from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations, Moving
from holdfast.agent.moves.source.handing_over import HandingOver
from holdfast.agent.moves.target.arriving import Arriving
from holdfast.agent.moves.target.receiving import Receiving
from holdfast.agent.moves.target.restoring import Restored
from holdfast.agent.moves.tidying import Tidying
from holdfast.reconcile import moves as rules

Key = tuple[str, int, str, str]  # service, epoch, what is done, key of the other node
Work = Callable[[], Awaitable[None]]


class Works:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        handing_over: HandingOver,
        receiving: Receiving,
        restored: Restored,
        arriving: Arriving,
        tidying: Tidying,
    ) -> None:
        self._declared = declared
        self._books = books
        self._handing_over = handing_over
        self._receiving = receiving
        self._restored = restored
        self._arriving = arriving
        self._tidying = tidying

    def follow(self, revision: Revision) -> None:
        """What stays here goes on at once."""
        self._declared.follow(revision)
        for moving in self._declared.into.values():
            into = self._books.into(moving.service)
            if self._books.stays(moving.service, moving.epoch) and rules.awaits(moving.entry, into):
                self._arriving.stay(moving)

    def release(self) -> None:
        """What the revision does not hand over any more goes on."""
        for service in self._books.services():
            if service not in self._declared.out:
                self._handing_over.release(service)

    def is_sure(self) -> bool:
        """Whether this node knows of each service that it hands over whether it did so."""
        return all(self._handing_over.looking_back.is_sure(moving) for moving in self._declared.out.values())

    def services(self) -> list[str]:
        """Those that moved, or move."""
        return self._books.services()

    def wanted(self) -> Mapping[Key, tuple[Moving | None, Work]]:
        found: dict[Key, tuple[Moving | None, Work]] = {}
        for moving in self._declared.out.values():
            out = self._books.out(moving.service)
            if out is not None and out.epoch == moving.epoch and not out.is_taken:
                found[_key(moving, "out")] = moving, partial(self._handing_over.run, moving)
        turn = self._turn()
        for moving in self._declared.into.values():
            if moving.move.turn > turn:
                continue
            into = self._books.into(moving.service)
            is_over = into is not None and into.epoch == moving.epoch and (into.is_told or bool(moving.move.backup))
            if self._books.may_stay(moving.service, moving.epoch):
                found[_key(moving, "ask")] = (
                    moving,
                    partial(self._handing_over.looking_back.ask_before_it_stays, moving),
                )
            elif rules.awaits(moving.entry, into) or not is_over:
                work = self._restored.run if moving.move.backup else self._receiving.run
                found[_key(moving, "into")] = moving, partial(work, moving)
        for service in self._books.services():
            if self._tidying.owes_out(service):
                found[service, 0, "tidy out", ""] = None, partial(self._tidying.out, service)
            if self._tidying.owes_into(service):
                found[service, 0, "tidy into", ""] = None, partial(self._tidying.into, service)
        return found

    def _turn(self) -> int:
        """The lowest of a service that has not arrived: services that this node restores come one after another."""
        into = self._declared.into.values()
        return min((one.move.turn for one in into if one.move.turn and self._awaits(one)), default=0)

    def _awaits(self, moving: Moving) -> bool:
        return rules.awaits(moving.entry, self._books.into(moving.service))


def _key(moving: Moving, work: str) -> Key:
    return moving.service, moving.epoch, work, moving.peer.key if moving.peer is not None else ""
