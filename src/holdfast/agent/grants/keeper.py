"""Give credentials to declared needs of other nodes, and take back those that are proven to be unused."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec import UNSET

from holdfast.agent.findings import Findings
from holdfast.agent.grants.books import Books
from holdfast.agent.grants.declared import Declarations
from holdfast.agent.grants.giving import Giving
from holdfast.agent.grants.section import GrantsReport
from holdfast.agent.grants.sweeping import Sweeping
from holdfast.agent.keeper import Act, OrderRun, Revision
from holdfast.errors import HoldfastError, Invalid, TryLater
from holdfast.model.need import GrantPhase, GrantState
from holdfast.model.size import counted
from holdfast.reconcile.grants import Book, Grant
from holdfast.trust import holdings
from holdfast.wire import codec
from holdfast.wire.need_messages import Ask, Told

AGAIN_S = 30.0  # after a revocation in vain
TICK_S = 60.0
FINDING = "grant_not_revoked"

T = TypeVar("T")


class Grants:
    """`report` is called when the section changed."""

    name = "grants"

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        giving: Giving,
        sweeping: Sweeping,
        findings: Findings,
        report: Callable[[], None],
        fleet: str,
        node: str,
    ) -> None:
        self._declared = declared
        self._books = books
        self._giving = giving
        self._sweeping = sweeping
        self._findings = findings
        self._report = report
        self._fleet = fleet
        self._node = node
        self._bell = asyncio.Event()
        self._works: set[asyncio.Task[object]] = set()
        self._section = GrantsReport()

    def follow(self, revision: Revision) -> None:
        self._declared.follow(revision)
        self._sweeping.follow()
        self._bell.set()

    def section(self) -> GrantsReport:
        return self._section

    async def run(self) -> None:
        try:
            while True:
                self._bell.clear()
                is_done = await self._work()
                self._show()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S if is_done else AGAIN_S):
                        await self._bell.wait()
        finally:
            for work in self._works:
                work.cancel()

    # ---- calls of other nodes

    def node_of(self, line: str) -> str:
        """A node with a declared need here, or with something that it got here; "" for any other key."""
        for node, key in self._declared.keys.items():
            if key == line:
                return node
        return next((book.node for book in self._books.all() if book.key == line), "")

    async def granted(self, node: str, type: str, body: bytes) -> bytes:
        ask = codec.read(body, Ask)
        pair = self._declared.pairs.get((ask.service, ask.need, node))
        if pair is None or pair.type != type:
            if ask.revision > self._declared.number:
                raise TryLater(
                    f"{self._node} has accepted revision {self._declared.number}, and revision {ask.revision} is asked",
                    remedy="wait: the need is asked for again",
                    code="not_yet",
                )
            raise Invalid("no such need", remedy="holdfast need list", code="not_found")
        answer = await self._to_its_end(self._giving.give(pair, ask.has))
        self._bell.set()
        return codec.write(answer)

    async def told(self, node: str, body: bytes) -> bytes:
        key = self._declared.keys.get(node) or next((book.key for book in self._books.of_node(node)), "")
        told = holdings.verified(body, self._fleet, node, self._node, key)
        self._sweeping.heard(node, told)
        self._bell.set()
        count = sum(len(book.grants) for book in self._books.of_node(node))
        return codec.write(Told(count, self._sweeping.unknown(told.said)))

    async def _to_its_end(self, work: Awaitable[T]) -> T:
        """Also if the caller hangs up: it asks again, and gets the answer then."""
        task = asyncio.ensure_future(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return await asyncio.shield(task)

    # ---- taking back

    async def _work(self) -> bool:
        """False if something has to be tried again."""
        is_done = True
        for book in self._books.all():
            for grant in book.grants:
                is_done = await self._settle(book, grant) and is_done
        return is_done

    async def _settle(self, book: Book, grant: Grant) -> bool:
        key = book.service, book.need, book.node
        address = f"service.{book.service}"
        why = self._sweeping.due.get(grant.handle)
        returns = grant.stage == "disabled" and grant is book.newest and key in self._declared.pairs
        if why is None and not returns:
            return True
        try:
            async with self._giving.turn(key):
                if not self._books.has(key, grant):
                    return True  # by an order, meanwhile
                if returns:
                    await self._giving.enable(book, grant)
                elif why is not None:
                    await self._giving.revoke(book, grant, why)
                    self._sweeping.done(grant)
        except HoldfastError as trouble:
            what = f"credential {grant.generation} of {book.need} of {book.service} on {book.node}"
            self._findings.add(FINDING, f"{what}: {trouble.message}", trouble.remedy, address)
            return False
        self._findings.clear(FINDING, address)
        return True

    # ---- by order

    @property
    def acts(self) -> Mapping[str, Act]:
        return {"revoke-grant": Act(self._revoke, "resume", "what it did not take back yet is taken back")}

    async def _revoke(self, run: OrderRun) -> str:
        """Every credential of one need on one node. While the need is declared, the node asks for the next one."""
        assert run.proof is not None, "a hub may not ask for this"
        said, service = run.proof.arguments, run.proof.order.target.partition(".")[2]
        need, node = said.get("need", ""), said.get("consumer", "")
        if not need or not node:
            raise Invalid(
                "an order to revoke-grant names the need and the node that has the credential",
                remedy=f"holdfast grant revoke {service} NEED -n NODE",
                code="usage",
            )
        count, key = 0, (service, need, node)
        async with self._giving.turn(key):
            book = self._books.of(key)
            for grant in book.grants if book is not None else ():
                assert book is not None
                await self._giving.revoke(book, grant, f"order {run.operation.order}")
                self._sweeping.done(grant)
                count += 1
        self._bell.set()
        what = f"need {need} of {service} on {node}"
        return f"{counted(count, 'credential')} of {what} revoked" if count else f"there is no credential of {what}"

    # ---- the report

    def _show(self) -> None:
        states = tuple(self._state(book, grant) for book in self._books.all() for grant in book.grants)
        if states != self._section.grants:
            self._section = GrantsReport(states)
            self._report()

    def _state(self, book: Book, grant: Grant) -> GrantState:
        goes_s = self._sweeping.goes_s(grant)
        why = self._sweeping.due.get(grant.handle, "")
        state: GrantPhase = "revoking" if why else "unused" if goes_s is not None else _PHASES[grant.stage]
        return GrantState(
            service=book.service,
            need=book.need,
            node=book.node,
            type=grant.type,
            handle=grant.handle,
            state=state,
            generation=grant.generation,
            epoch=grant.epoch,
            issued_s=grant.issued_s,
            goes_s=UNSET if goes_s is None else float(int(goes_s)),
            why=why,
        )


_PHASES: dict[str, GrantPhase] = {"making": "issued", "issued": "issued", "held": "held", "disabled": "disabled"}
