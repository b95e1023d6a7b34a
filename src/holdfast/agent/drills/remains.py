"""What a drill makes is noted before it exists, and removed afterwards: also what an agent before this one left."""

import asyncio

import msgspec

from holdfast.agent.completing import completed
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Door
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import Conflict
from holdfast.gate import copies
from holdfast.gate.containers import RUN
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime
from holdfast.ports.scratch import Drillable, Scratch
from holdfast.reconcile.drill_copy import KIND, Staged

FACT = "drills/staged"

_decode = msgspec.json.Decoder(Staged).decode


class Remains:
    """One drill at a time."""

    def __init__(
        self,
        *,
        journal: Journal,
        runtime: Runtime,
        door: Door,
        containers: Containers,
        scratch: Scratch,
        node: str,
    ) -> None:
        self._journal = journal
        self._runtime = runtime
        self._door = door
        self._containers = containers
        self._scratch = scratch
        self._node = node

    def staged(self) -> Staged | None:
        """The drill whose things may be there."""
        noted = self._journal.fact(FACT)
        return _decode(noted) if noted is not None else None

    async def begin(self, staged: Staged) -> Drillable:
        """Its scratch directory is there afterwards, marked as this agent's own."""
        proof = granted(copies.may_drill(staged.service, staged.id, self._node))
        if staged.id in self._scratch.found():
            raise Conflict(
                f"{self._scratch.path(staged.id)} is there already, and this agent did not make it for this drill",
                remedy=f"repeat the command: holdfast drill {staged.service}",
                code="scratch_exists",
            )
        self._journal.set_aside(FACT, msgspec.json.encode(staged))
        self._journal.note_made(self._scratch.path(staged.id), KIND, True)
        for name in staged.containers:
            self._journal.note_made(RUN + name, KIND, True)
        await completed(asyncio.to_thread(self._scratch.make, proof))
        return proof

    async def clear(self) -> None:
        """Everything that the note names; may be repeated. The note goes last."""
        staged = self.staged()
        if staged is None:
            return
        for name in staged.containers:
            found = await self._runtime.container(name)
            if found is not None and self._journal.made_by(RUN + name) is not None:
                await self._door.stop(found, service=staged.service)
                await self._door.remove(found, service=staged.service)
            self._containers.forget_secrets(name)
            self._journal.forget_made(RUN + name)
        await self._door.remove_network(staged.network, staged.service)
        path = self._scratch.path(staged.id)
        if self._journal.made_by(path) is not None:
            proof = granted(copies.may_clear(self._journal, staged.service, staged.id, path, self._node))
            await asyncio.to_thread(self._scratch.clear, proof)
            self._journal.forget_made(path)
        self._journal.drop_fact(FACT)

    async def unknown(self) -> set[str]:
        """Containers with the label of drills that the journal does not have, as they are now."""
        seen = [one.name for one in self._containers.labelled(KIND) if self._journal.made_by(RUN + one.name) is None]
        return {name for name in seen if await self._runtime.container(name) is not None}
