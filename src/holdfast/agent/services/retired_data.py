"""Data that services left behind on this node: found by tombstones, measured, reported, and purged by order only."""

import asyncio
from collections.abc import Callable, Mapping

from holdfast.agent.keeper import Act, OrderRun, Revision
from holdfast.agent.lanes import Lanes
from holdfast.model.order import VerifiedOrder
from holdfast.model.report import RetiredData
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Storage

LOOK_S = 600.0  # sizes are measured so often
FOUND = "found"
CONDEMNED = "condemned"
DESTROYED = "destroyed"


class Retired:
    def __init__(self, storage: Storage, clock: Clock, changed: Callable[[], None]) -> None:
        self._storage = storage
        self._clock = clock
        self._changed = changed
        self._revision: Revision | None = None
        self._next_s = 0.0
        self.found: tuple[RetiredData, ...] = ()

    def follow(self, revision: Revision) -> None:
        """Services that leave with it leave data behind: it is looked at now."""
        self._revision, self._next_s = revision, 0.0

    async def look(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        found = await asyncio.get_running_loop().run_in_executor(None, self._left_behind, self._revision)
        if found != self.found:
            self.found = found
            self._changed()

    def purged(self, name: str) -> None:
        """Reported with the result of the order: an operator who reads that asks next what is left."""
        self.found = tuple(one for one in self.found if one.name != name)
        self._changed()

    def _left_behind(self, revision: Revision | None) -> tuple[RetiredData, ...]:
        if revision is None:
            return ()
        known = {(one.name, one.removed_in) for one in self.found}
        found = []
        for counted in self._storage.directories():
            address = f"service.{counted.name}"
            if address not in revision.manifest.services and address in revision.tombstones:
                removed_in = revision.tombstones[address].removed_in
                is_new = (counted.name, removed_in) not in known  # while it ran, other figures were measured
                one = (self._storage.directory(counted.name) if is_new else None) or counted
                found.append(RetiredData(one.name, one.path, one.size_bytes, one.files, removed_in))
        return tuple(found)


class Purge:
    """Destroys retired data by a signed order: moved aside, written down, deleted. Interrupted anywhere and begun
    again, it does not touch data that was made meanwhile."""

    def __init__(self, storage: Storage, journal: Journal, clock: Clock, retired: Retired, lanes: Lanes) -> None:
        self._storage = storage
        self._journal = journal
        self._clock = clock
        self._retired = retired
        self._lanes = lanes
        self.acts: Mapping[str, Act] = {
            "purge": Act(
                self._purge, "resume", "half destroyed data is of no use; the condemned part is known by the order's id"
            )
        }

    async def _purge(self, run: OrderRun) -> str:
        proof = run.proof
        assert proof is not None, "the gate permits no purge without an order"
        name = proof.order.target.removeprefix("data.")
        await self._lanes.alone(name)
        if not run.did(CONDEMNED):
            self._condemn(run, name, proof)
        if self._storage.condemned(name, proof):
            await asyncio.get_running_loop().run_in_executor(None, self._storage.destroy, name, proof)
        self._step(run, DESTROYED)
        self._retired.purged(name)
        return f"data.{name} is gone"

    def _condemn(self, run: OrderRun, name: str, proof: VerifiedOrder) -> None:
        path = run.note(FOUND)
        if path is None:
            found = self._storage.directory(name)
            path = found.path if found is not None else ""
            self._step(run, FOUND, path)
        self._storage.condemn(name, proof)
        if path:
            self._journal.forget_made(path)  # a directory that is made there next is not the one of before
        self._step(run, CONDEMNED)

    def _step(self, run: OrderRun, name: str, note: str = "") -> None:
        self._journal.step(run.operation.id, name, self._clock.now_s(), note)
