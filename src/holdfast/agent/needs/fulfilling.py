"""Fulfil one need: ask, write the files, tell the service; give back what is not declared any more."""

from collections.abc import Callable
from contextlib import suppress

from holdfast.agent.findings import Findings
from holdfast.agent.needs.asking import Asking
from holdfast.agent.needs.books import Books
from holdfast.agent.needs.changing import Changing
from holdfast.agent.needs.declared import Declared
from holdfast.agent.needs.tries import TryBook
from holdfast.errors import HoldfastError
from holdfast.ports.need_files import NeedFiles, NeedKey
from holdfast.reconcile import needs as rules
from holdfast.reconcile.needs import Held

UNWRITABLE = "needs_unwritable"


class Fulfilling:
    """`fulfilled` is called when a service may go on."""

    def __init__(
        self,
        *,
        asking: Asking,
        changing: Changing,
        files: NeedFiles,
        books: Books,
        tries: TryBook,
        findings: Findings,
        fulfilled: Callable[[], None],
    ) -> None:
        self._asking = asking
        self._changing = changing
        self._files = files
        self._books = books
        self._tries = tries
        self._findings = findings
        self._fulfilled = fulfilled

    def held(self, key: NeedKey) -> Held | None:
        return self._books.held.get(key)

    def due_s(self, declared: Declared, now_s: float) -> float | None:
        """When this need is asked for next."""
        return rules.due_s(self.held(declared.key), declared.want, self._tries.of(declared.key), now_s)

    async def ask(self, declared: Declared, now_s: float) -> None:
        try:
            held = await self._asking.ask(declared)
            self._files.put(declared.key, self._asking.values(declared, held))
        except HoldfastError as trouble:
            self._tries.failed(declared, trouble)
            return
        self._tries.succeeded(declared)
        self._fulfilled()
        if held.older:
            await self.change(declared, held, now_s)

    async def change(self, declared: Declared, held: Held, now_s: float) -> None:
        """The handles of older values are given back when containers use the new ones."""
        if self._changing.must_tell(declared):
            if not rules.may_restart(held, now_s):
                return
            with suppress(HoldfastError):  # a service that does not come up again is told by its own keeper
                await self._changing.tell(declared)
        self._asking.replaced(declared, held)

    def deliver(self, declared: Declared) -> None:
        """Again, if they are not there, as after a boot."""
        held, address = self.held(declared.key), f"service.{declared.service}"
        if held is None or self._files.has(declared.key):
            return
        try:
            self._files.put(declared.key, self._asking.values(declared, held))
        except HoldfastError as trouble:
            self._findings.add_trouble(UNWRITABLE, trouble, address)
        else:
            self._findings.clear(UNWRITABLE, address)
            self._fulfilled()

    def give_back(self, declared: dict[NeedKey, Declared]) -> None:
        """What is not declared any more: the files first, then the handle (I-11)."""
        for key in [key for key in self._files.known() if key not in declared]:
            with suppress(HoldfastError):
                self._files.forget(key)
        for key in [key for key in self._books.held if key not in declared]:
            if not self._files.has(key):
                self._books.drop(key)
