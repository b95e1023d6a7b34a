"""Bring a backup back by a signed order: it becomes a checkpoint of its service, and may replace the data.

The copy is fetched and checked while the service runs, and a dump is loaded beside it. Everything after that is a
restore of a checkpoint (agent/services/data/restore.py): held, stopped, exchanged in one step; what was there becomes a
checkpoint.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from holdfast.agent.backups.fetching import Fetching
from holdfast.agent.backups.restores.way_back import WayBack
from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.orders.order_steps import OrderSteps
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.data.restore import Restore
from holdfast.gate import copies
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_report import RestoreState
from holdfast.model.checkpoint import Taken
from holdfast.ports.storage import Checkpoint, Receivable, Storage

FETCHED = "fetched"

T = TypeVar("T")


class Restoring:
    """`left` answers the volumes of a service that no backup holds: a restore leaves them as they are."""

    def __init__(
        self,
        *,
        fetching: Fetching,
        storage: Storage,
        checkpoints: Checkpoints,
        restore: Restore,
        steps: OrderSteps,
        ways: WayBack,
        left: Callable[[str], tuple[str, ...]],
        node: str,
    ) -> None:
        self._fetching = fetching
        self._storage = storage
        self._checkpoints = checkpoints
        self._restore = restore
        self._steps = steps
        self._ways = ways
        self._left = left
        self._node = node
        self.acts: Mapping[str, Act] = {
            "restore": Act(self._into_place, "resume", "the data is the old or the restored one; it goes on"),
            "fetch-backup": Act(self._beside, "resume", "half of a copy is of no use"),
        }

    def states(self) -> tuple[RestoreState, ...]:
        """What is under way, for the report."""
        return self._ways.under_way.states()

    async def _beside(self, run: OrderRun) -> str:
        made = await self._fetched(run)
        return f"{made.service} has the backup as checkpoint {made.id} on this node: {made.size_bytes} bytes"

    async def _into_place(self, run: OrderRun) -> str:
        made = await self._fetched(run)
        return await self._restore.in_place(run, made.id)

    async def _fetched(self, run: OrderRun) -> Checkpoint:
        """After a crash it begins again, unless the copy is complete."""
        assert run.proof is not None, "the gate permits no restore without an order"
        digest = run.proof.arguments.get("backup", "")
        proof = granted(copies.may_fetch(digest, self._node, run.proof))
        present = [one for one in self._storage.checkpoints() if (one.service, one.id) == (proof.service, proof.id)]
        if present:
            return present[0]
        found = await self._fetching.named(proof.service, digest)
        await self._ways.clear(proof.service)
        tell = self._ways.under_way.begin(proof.service, found.receipt.size_bytes)
        top = await _in_thread(partial(self._storage.receive, proof))
        try:
            unpacked = await self._fetching.unpack(found, run.proof.arguments.get("key", ""), top, tell)
            drop = await self._ways.load(proof, top, unpacked.header, self._left(proof.service))
        except BaseException:
            await asyncio.shield(_in_thread(partial(self._storage.drop_received, proof)))
            raise
        finally:
            self._ways.under_way.end(proof.service)
        return await self._kept(run, found, proof, drop)

    async def _kept(
        self, run: OrderRun, found: VerifiedReceipt, proof: Receivable, drop: tuple[str, ...]
    ) -> Checkpoint:
        receipt, off = found.receipt, self._left(proof.service)
        made = await _in_thread(partial(self._storage.received, proof, float(receipt.made_s), off, drop))
        places = {f"{receipt.service}/{volume}": () for volume in receipt.volumes}
        taken = Taken(receipt.deployment, receipt.revision, writers=places)  # no program has had this copy yet
        self._checkpoints.fetched(made, taken, run.operation.id)
        self._steps.did(run, FETCHED, proof.id)
        await self._checkpoints.look()
        return made


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
