"""All data of a service is here: it takes its place, and the service runs on this node from now on."""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from holdfast.agent.lane_turn import in_lane, superseded
from holdfast.agent.lanes import Lanes
from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations, Moving
from holdfast.agent.moves.target.inheriting import Inheriting
from holdfast.agent.moves.target.landing import Landing
from holdfast.model.move import Pass
from holdfast.ports.storage import Receivable
from holdfast.reconcile import moves as rules


class Arriving:
    """`follow` lets all keepers follow the revision again."""

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        landing: Landing,
        inheriting: Inheriting,
        lanes: Lanes,
        follow: Callable[[], None],
    ) -> None:
        self._declared = declared
        self._books = books
        self.landing = landing
        self._inheriting = inheriting
        self._lanes = lanes
        self._follow = follow

    def stay(self, moving: Moving) -> None:
        """A move is taken back before the data left this node."""
        book = self._books.out(moving.service)
        is_ours = book is not None and book.stopping and not book.held  # held to hand it over
        self._arrived(moving, self._inheriting.is_held(moving.service) and not is_ours)

    def may_go_back(self, moving: Moving) -> bool:
        """The other node never had the data. It is here if the books say so, or, after they were put back, its
        passport: it was written before the move away."""
        is_noted = rules.may_go_back(self._books.out(moving.service), moving.epoch)
        return is_noted or self._inheriting.epoch(moving.service) >= moving.epoch - 2

    async def go_back(self, moving: Moving) -> None:
        """A move is taken back that was handed over and never taken: the data is here, as it was."""
        book = self._books.out(moving.service)

        async def back() -> None:
            self._check_current(moving)
            self._arrived(moving, book is not None and book.epoch == moving.epoch - 1 and book.held)

        await in_lane(self._lanes, moving.service, back)
        self._follow()

    async def take_in(self, moving: Moving, proof: Receivable, word: Pass | None, drop: tuple[str, ...] = ()) -> None:
        """After a crash it is done again."""
        await in_lane(self._lanes, moving.service, partial(self._take_in, moving, proof, word, drop))
        self._follow()

    async def _take_in(self, moving: Moving, proof: Receivable, word: Pass | None, drop: tuple[str, ...]) -> None:
        self._check_current(moving)
        guest = self._inheriting.guest(moving.service)
        if not self.landing.book(moving).placing:
            await asyncio.to_thread(self.landing.set_aside, moving)
            self._books.keep_into(
                moving.service, replace(self.landing.book(moving), placing=True, word=word, drop=drop)
            )
        word = self.landing.book(moving).word
        await asyncio.to_thread(self.landing.put, moving, proof)
        self._inheriting.data(guest, moving.epoch, word)
        self._arrived(moving, word is not None and word.held)

    def _check_current(self, moving: Moving) -> None:
        found = self._declared.into.get(moving.service)
        if found is None or found.epoch != moving.epoch:
            raise superseded()

    def _arrived(self, moving: Moving, held: bool) -> None:
        self._inheriting.hold(moving, self._declared.number, held)
        self._books.keep_into(moving.service, replace(self.landing.book(moving), has_arrived=True))
