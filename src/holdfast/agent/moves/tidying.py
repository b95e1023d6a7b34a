"""Take away what a move leaves that is over: objects on the passage, what the archiver keeps, half a copy."""

import asyncio

from msgspec.structs import replace

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.source.packing import MovePacking
from holdfast.agent.moves.target.landing import Landing
from holdfast.agent.moves.target.receiving import Receiving
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Vouch
from holdfast.gate import copies
from holdfast.ports.backup_target import Prunable
from holdfast.reconcile.moves import Into


class Tidying:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        packing: MovePacking,
        receiving: Receiving,
        landing: Landing,
        passage: Passage,
        vouch: Vouch,
        node: str,
    ) -> None:
        self._declared = declared
        self._books = books
        self._packing = packing
        self._receiving = receiving
        self._landing = landing
        self._passage = passage
        self._vouch = vouch
        self._node = node

    def owes_out(self, service: str) -> bool:
        """The move away from this node is over, and something may be left of it."""
        book, moving = self._books.out(service), self._declared.out.get(service)
        if book is None or book.is_tidy:
            return False
        return book.is_taken or moving is None or moving.epoch != book.epoch

    def owes_into(self, service: str) -> bool:
        """The same for moves to this node: half a copy is left. What arrived is data."""
        book = self._books.into(service)
        return book is not None and (bool(book.left) or self._is_over(service, book))

    def _is_over(self, service: str, book: Into) -> bool:
        moving = self._declared.into.get(service)
        return not (book.has_arrived or book.is_tidy or (moving is not None and moving.epoch == book.epoch))

    async def out(self, service: str) -> None:
        """The hub empties its passage of moves that the revision does not have."""
        book, moving = self._books.out(service), self._declared.out.get(service)
        if book is None:
            return
        if book.is_taken and moving is not None and moving.epoch == book.epoch:
            await self._passage.close(moving, book.handover)
            await self._passage.empty(moving, lambda key: self._prunable(service, key))
        await self._packing.forget(service)
        if self._books.out(service) == book:
            self._books.keep_out(service, replace(book, is_tidy=True))

    async def into(self, service: str) -> None:
        """What the archiver knows is forgotten, unless another move to this node is under way."""
        book = self._books.into(service)
        if book is None:
            return
        is_over = self._is_over(service, book)
        if is_over:
            await self._receiving.forget(service)
        for epoch in (*book.left, book.epoch) if is_over else book.left:
            await asyncio.to_thread(self._landing.drop, service, epoch)
        now = self._books.into(service)
        if now is not None and now.epoch == book.epoch:
            self._books.keep_into(service, replace(now, left=(), is_tidy=is_over))

    def _prunable(self, service: str, key: str) -> Prunable:
        """What this node sent, and the other one has."""
        return granted(copies.may_empty(key, node=self._node, proof=self._vouch(f"service.{service}")))
