"""Put a checkpoint in the place of a service's data, by a signed order.

The copy is staged while the service runs. Then the service is held and stopped, the data is exchanged in one step, and
what was there becomes a checkpoint. A crash anywhere leaves the old or the restored data; the same order goes on.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.orders.order_steps import OrderSteps
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.users import DataUsers
from holdfast.agent.services.door import START
from holdfast.agent.services.holds import Holds
from holdfast.agent.services.orders import ServiceOrders
from holdfast.errors import Failed, HoldfastError
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import Checkpoint, Restorable, Storage

STAGED = "staged"
FOUND = "found"  # what the service was doing: "held", "runs", or "absent"
EXCHANGED = "exchanged"

HOLD = "hold"  # argument `then`: the service waits for the revision that wrote the data


class Restore:
    def __init__(
        self,
        *,
        storage: Storage,
        passports: Passports,
        checkpoints: Checkpoints,
        services: ServiceOrders,
        users: DataUsers,
        holds: Holds,
        steps: OrderSteps,
    ) -> None:
        self._storage = storage
        self._passports = passports
        self._checkpoints = checkpoints
        self._services = services
        self._users = users
        self._holds = holds
        self._steps = steps
        self.acts: Mapping[str, Act] = {
            "restore-checkpoint": Act(self._restore, "resume", "the data is the old or the restored one; it goes on")
        }

    async def _restore(self, run: OrderRun) -> str:
        assert run.proof is not None, "the gate permits no restore without an order"
        return await self.in_place(run, run.proof.arguments.get("checkpoint", ""))

    async def in_place(self, run: OrderRun, id: str) -> str:
        """The checkpoint that the order names, or that the backup of the order became here."""
        order = run.proof
        assert order is not None, "the gate permits no restore without an order"
        service = order.order.target.removeprefix("data.")
        proof = self._checkpoints.restorable(service, id, order)
        found = run.note(FOUND)
        if not run.did(EXCHANGED):
            staged = run.note(STAGED) or await self._stage(run, proof)
            if found is None:
                found = self._holds.doing(service)
                self._steps.did(run, FOUND, found)
            await self._stop(service, found, proof)
            await self._exchange(run, proof, staged, order)
        return await self._end(service, str(found), proof.checkpoint, order)

    async def _stage(self, run: OrderRun, proof: Restorable) -> str:
        """Takes as long as a copy takes; the service runs on meanwhile."""
        staged = await asyncio.get_running_loop().run_in_executor(None, self._storage.stage, proof)
        self._steps.did(run, STAGED, staged)
        return staged

    async def _stop(self, service: str, found: str, proof: Restorable) -> None:
        try:
            if found != "absent":
                await self._services.stop(service)
            refuse = self._users.refuse if found == "absent" else self._users.refuse_foreign
            await refuse(service, "replaced")
        except HoldfastError:
            with suppress(HoldfastError):  # the original error matters
                self._storage.unstage(proof)
            if found == "runs":
                self._holds.lift(service)
            raise

    async def _exchange(self, run: OrderRun, proof: Restorable, staged: str, order: VerifiedOrder) -> None:
        """The passports follow the data: the same writers as then, or those of now."""
        service = proof.checkpoint.service
        present = self._checkpoints.present(service, self._holds.record(service))
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(None, self._storage.exchange, proof, staged, self._steps.now_s())
        if made is not None:
            self._checkpoints.replaced(made, present, run.operation.id)
        taken, stays = self._checkpoints.taken(proof.checkpoint), self._is_kept(service, order)
        self._passports.restored(service, taken, stays, proof.checkpoint.id, order.order.id)
        self._steps.did(run, EXCHANGED)
        await self._checkpoints.look()

    def _is_kept(self, service: str, order: VerifiedOrder) -> bool:
        """The version of now goes on with the data."""
        return order.arguments.get("then") != HOLD and self._holds.doing(service) != "absent"

    async def _end(self, service: str, found: str, restored: Checkpoint, order: VerifiedOrder) -> str:
        done = f"data.{service} is that of checkpoint {restored.id}"
        if found == "absent":
            return done
        if order.arguments.get("then") == HOLD:
            return f"{done}; service.{service} is held until its next deployment"
        if found == "held":
            return f"{done}; service.{service} was stopped by an order, and stays so"
        try:
            await self._services.start(service, START)
        except HoldfastError as trouble:
            if trouble.code == "inactive":
                return f"{done}; service.{service} is declared with active = false, and stays stopped"
            raise Failed(
                f"{done}, but service.{service} does not run: {trouble.message}",
                remedy=trouble.remedy,
                code=trouble.code,
            ) from trouble
        return f"{done}, and service.{service} runs with it"
