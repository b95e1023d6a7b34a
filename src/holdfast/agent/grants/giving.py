"""Answer a need: one credential for one node and generation, whatever dies in between.

Durable before the server is asked: handle and generation. A repeat makes the same login, and gives the same answer
until the node says that it holds it.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from holdfast.agent.grants.books import Books, Key
from holdfast.agent.grants.declared import Declarations
from holdfast.errors import Failed
from holdfast.model import canonical
from holdfast.model.need import Grantee, Pair
from holdfast.ports.need_handler import NeedHandler
from holdfast.ports.random_source import RandomSource
from holdfast.ports.sealing import Sealer
from holdfast.reconcile.grants import Book, Grant, next_of
from holdfast.reconcile.need_values import checked
from holdfast.wire.need_messages import Answer, Sealed

Handlers = Callable[[str], NeedHandler]  # by type


class Giving:
    """`told` is called with each event for the audit log."""

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        handlers: Handlers,
        sealer: Sealer,
        random: RandomSource,
        now_s: Callable[[], float],
        told: Callable[[str, Grantee], None],
        fleet: str,
    ) -> None:
        self._declared = declared
        self._books = books
        self._handlers = handlers
        self._sealer = sealer
        self._random = random
        self._now_s = now_s
        self._told = told
        self._fleet = fleet
        self._turns: dict[Key, asyncio.Lock] = {}

    def grantee(self, book: Book, grant: Grant) -> Grantee:
        return Grantee(
            fleet=self._fleet,
            service=book.service,
            need=book.need,
            node=book.node,
            generation=grant.generation,
            epoch=grant.epoch,
            params=grant.params,
        )

    def turn(self, key: Key) -> asyncio.Lock:
        """One piece of work at a time for one need of one node."""
        return self._turns.setdefault(key, asyncio.Lock())

    async def give(self, pair: Pair, has: int) -> Answer:
        key = pair.service, pair.need, pair.consumer
        async with self.turn(key):
            book = self._books.of(key) or Book(*key, key=self._declared.keys[pair.consumer])
            if book.key != self._declared.keys[pair.consumer]:
                book = replace(book, key=self._declared.keys[pair.consumer])
            generation, again = next_of(book, has)
            if again is not None and again.stage == "issued":
                return _answer(again)
            await self._disable_older(pair)
            made = again or Grant(generation, f"sha256:{self._random.token(32).hex()}", pair.type, pair.epoch)
            made = replace(made, params=pair.params, epoch=pair.epoch, type=pair.type)
            self._books.keep(replace(book, dropped_in=0))
            book = self._books.keep_grant(key, made)
            to = self.grantee(book, made)
            values = await self._handlers(pair.type).grant(to, self._declared.setting(pair.type))
            issued = replace(
                made,
                stage="issued",
                issued_s=self._now_s(),
                ttl_s=self._declared.offers[pair.type].ttl_s,
                answer=self._seal(book, made, self._checked(pair, values)),
            )
            self._told("grant_issued", to)
            self._books.keep_grant(key, issued)
            return _answer(issued)

    def _checked(self, pair: Pair, values: Mapping[str, str]) -> Mapping[str, str]:
        return checked(pair.type, pair.facts, values)

    def _seal(self, book: Book, grant: Grant, values: Mapping[str, str]) -> bytes:
        inside = Sealed(self._fleet, book.service, book.need, book.node, grant.handle, dict(values))
        return self._sealer.seal(canonical.encode(inside), [book.key])

    async def _disable_older(self, pair: Pair) -> None:
        """The service moved here: logins of its earlier homes end before the new one begins. They come back if the
        move is taken back."""
        for book in self._books.all():
            if (book.service, book.need) != (pair.service, pair.need) or book.node == pair.consumer:
                continue
            for grant in book.grants:
                if grant.epoch < pair.epoch and grant.stage != "disabled":
                    to = self.grantee(book, grant)
                    await self._handlers(grant.type).disable(to, self._declared.setting(grant.type))
                    self._books.keep_grant((book.service, book.need, book.node), replace(grant, stage="disabled"))
                    self._told("grant_disabled", to)

    async def enable(self, book: Book, grant: Grant) -> None:
        to = self.grantee(book, grant)
        await self._handlers(grant.type).enable(to, self._declared.setting(grant.type))
        self._books.keep_grant((book.service, book.need, book.node), replace(grant, stage="held"))
        self._told("grant_enabled", to)

    async def revoke(self, book: Book, grant: Grant, why: str) -> None:
        to = self.grantee(book, grant)
        await self._handlers(grant.type).revoke(to, self._declared.setting(grant.type))
        self._told(f"grant_revoked: {why}", to)
        self._books.drop_grant((book.service, book.need, book.node), grant.generation)


def _answer(grant: Grant) -> Answer:
    if not grant.answer:
        raise Failed("the answer is not here", remedy="report this, with the log")
    return Answer(grant.handle, grant.generation, grant.answer, grant.ttl_s)
