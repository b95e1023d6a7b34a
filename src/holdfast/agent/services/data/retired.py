"""Data without a service on this node: found by tombstones or refused, measured, reported, purged by order only."""

import asyncio
from collections.abc import Callable, Mapping

from holdfast.agent.keeper import Act, OrderRun, Revision
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import Volumes
from holdfast.errors import Conflict
from holdfast.model.order import VerifiedOrder
from holdfast.model.report import RetiredData, Unattached
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Storage

LOOK_S = 600.0  # sizes are measured so often
FOUND = "found"
CONDEMNED = "condemned"
DESTROYED = "destroyed"


class Retired:
    def __init__(self, storage: Storage, volumes: Volumes, clock: Clock, changed: Callable[[], None]) -> None:
        self._storage = storage
        self._volumes = volumes
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

    @property
    def unattached(self) -> tuple[Unattached, ...]:
        return self._volumes.unattached

    def is_applied(self, name: str) -> bool:
        """Unknown counts as applied: before a revision was read, nothing is called unused."""
        revision = self._revision
        return revision is None or any(
            f"service.{name}" in held for held in (revision.manifest.services, revision.manifest.standby)
        )

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

    def __init__(
        self,
        *,
        storage: Storage,
        volumes: Volumes,
        journal: Journal,
        clock: Clock,
        retired: Retired,
        lanes: Lanes,
        runtime: Runtime,
    ) -> None:
        self._storage = storage
        self._volumes = volumes
        self._runtime = runtime
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
            await self._refuse_used(name)
            self._condemn(run, name, proof)
        if self._storage.condemned(name, proof):
            await asyncio.get_running_loop().run_in_executor(None, self._storage.destroy, name, proof)
        self._step(run, DESTROYED)
        self._retired.purged(name)
        return f"data.{name} is gone"

    async def _refuse_used(self, name: str) -> None:
        """Also foreign containers count: what they write into deleted files would be lost."""
        if self._retired.is_applied(name):
            raise Conflict(
                f"data.{name} is not purged: service.{name} is applied on this node and uses it",
                remedy=f"`holdfast undeploy {name}`, then purge again",
                code="in_use",
            )
        found = self._storage.directory(name)
        users = await self._runtime.users(found.path) if found is not None else ()
        if users:
            raise Conflict(
                f"data.{name} is not purged: these containers mount it: {', '.join(users[:5])}",
                remedy=f"remove them on the node, then purge again: `podman rm --force {users[0]}`",
                code="in_use",
            )

    def _condemn(self, run: OrderRun, name: str, proof: VerifiedOrder) -> None:
        path = run.note(FOUND)
        if path is None:
            found = self._storage.directory(name)
            path = found.path if found is not None else ""
            self._step(run, FOUND, path)
        self._storage.condemn(name, proof)
        if path:
            self._journal.forget_made(path)  # a directory that is made there next is not the one of before
        self._volumes.forget(name, proof)
        self._step(run, CONDEMNED)

    def _step(self, run: OrderRun, name: str, note: str = "") -> None:
        self._journal.step(run.operation.id, name, self._clock.now_s(), note)
