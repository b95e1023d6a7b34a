"""The acts themselves, one function each, of orders that passed the gate and are in the journal."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from holdfast.agent.services.keeper import Services
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.world import World
from holdfast.model.journal import Operation, StepRecord
from holdfast.model.order import VerifiedOrder

FOUND = "found"
CONDEMNED = "condemned"
DESTROYED = "destroyed"


class Act(Struct, frozen=True):
    """What is being done, how far it came before a crash, and by whose order; no proof for what a hub may ask."""

    operation: Operation
    proof: VerifiedOrder | None
    steps: tuple[StepRecord, ...] = ()

    def did(self, step: str) -> bool:
        return self.note(step) is not None

    def note(self, step: str) -> str | None:
        return next((record.note for record in self.steps if record.name == step), None)


class Performer:
    """`report_now` is set when somebody asked for a whole report."""

    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._services = services
        self.report_now = False
        orders = ServiceOrders(world, services)
        self._acts: Mapping[str, Callable[[Act], Awaitable[str]]] = {
            "ping": self._ping,
            "check-in": self._check_in,
            "renew-certificate": self._renew,
            "restart": self._on_service(orders.restart),
            "stop": self._on_service(orders.stop),
            "start": self._on_service(orders.start),
            "force-cleanup": self._on_service(orders.clean_up),
            "purge": self._purge,
        }

    @property
    def built(self) -> frozenset[str]:
        return frozenset(self._acts)

    async def perform(self, act: Act) -> str:
        """What was done, in a sentence. Raises HoldfastError when it was not."""
        return await self._acts[act.operation.kind](act)

    def _on_service(self, act: Callable[[str], Awaitable[str]]) -> Callable[[Act], Awaitable[str]]:
        async def perform(asked: Act) -> str:
            return await act(asked.operation.lane)

        return perform

    async def _ping(self, act: Act) -> str:
        return "here"

    async def _check_in(self, act: Act) -> str:
        self.report_now = True
        return "the report follows"

    async def _renew(self, act: Act) -> str:
        return await self._world.certificates.renew()

    async def _purge(self, act: Act) -> str:
        """Moved aside, written down, taken away. Cut anywhere and begun again, a newer one is not touched."""
        proof, storage = act.proof, self._world.storage
        assert proof is not None, "the gate lets nobody purge without an order"
        name = proof.order.target.removeprefix("data.")
        if not act.did(CONDEMNED):
            self._condemn(act, name, proof)
        if storage.condemned(name, proof):
            await asyncio.get_running_loop().run_in_executor(None, storage.destroy, name, proof)
        self._step(act, DESTROYED)
        self._services.left_behind.purged(name)
        return f"data.{name} is gone"

    def _condemn(self, act: Act, name: str, proof: VerifiedOrder) -> None:
        path = act.note(FOUND)
        if path is None:
            found = self._world.storage.directory(name)
            path = found.path if found is not None else ""
            self._step(act, FOUND, path)
        self._world.storage.condemn(name, proof)
        if path:
            self._world.journal.forget_made(path)  # whatever is made there next is not what this agent made before
        self._step(act, CONDEMNED)

    def _step(self, act: Act, name: str, note: str = "") -> None:
        self._world.journal.step(act.operation.id, name, self._world.clock.now_s(), note)
