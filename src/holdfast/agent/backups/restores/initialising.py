"""A container of a service on the volumes of an unpacked backup, beside the service: for a command that loads a dump.

It publishes no port and is in a closed network of its own, as the copies of a drill are: it reaches nothing. Nothing of
it stays.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec.structs import replace

from holdfast.agent.backups.initialised import ended
from holdfast.agent.backups.lacking import filled
from holdfast.agent.services.data.filling import image_reader
from holdfast.agent.services.door import Door
from holdfast.agent.services.rollout.containers import READER, Containers
from holdfast.gate.containers import RUN
from holdfast.model.container import (
    LABEL_FLEET,
    LABEL_INFRASTRUCTURE,
    Container,
    ContainerSpec,
    Mount,
    Part,
)
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Receivable, Storage
from holdfast.reconcile import closed

KIND = "load"


class Initialising:
    """`data_dir` has the data of each service; `fleet` is the id of the fleet. The journal has the name of the
    container and of its network before they exist, until they are gone."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        door: Door,
        containers: Containers,
        journal: Journal,
        storage: Storage,
        data_dir: str,
        fleet: str,
    ) -> None:
        self._runtime = runtime
        self._door = door
        self._containers = containers
        self._journal = journal
        self._storage = storage
        self._data_dir = data_dir
        self._fleet = fleet

    @asynccontextmanager
    async def begun(self, part: Part, proof: Receivable) -> AsyncIterator[Container]:
        """It is started; afterwards it is stopped and removed."""
        name = self._name(part.spec.service)
        await self.discard(part.spec.service)
        for one in (name, f"{name}{READER}"):
            self._journal.note_made(RUN + one, KIND, False)
        try:
            yield await self._started(name, part, proof)
        finally:
            await asyncio.shield(self.discard(part.spec.service))

    async def complete(self, parts: Sequence[Part], proof: Receivable, without: Collection[str]) -> None:
        """The volumes of the service that the backup did not bring begin as new ones, as they do in a drill. `without`:
        those that it brought, or that stay as they are."""
        wanted = [
            (part.spec, mount)
            for part in parts
            for mount in part.spec.mounts
            if self._volume(part.spec, mount) not in ("", *without)
        ]
        if not wanted:
            return
        name = self._name(proof.service)
        await self.discard(proof.service)
        self._journal.note_made(RUN + name + READER, KIND, False)
        try:
            for spec, mount in wanted:
                await self._pulled(spec)
                await self._mount(name, spec, mount, proof)
        finally:
            await asyncio.shield(self.discard(proof.service))

    def _name(self, service: str) -> str:
        """The same one after a crash. Names of components have no underscore, so no component has it."""
        return f"hf-{self._fleet[:6]}-{service}_load"

    async def discard(self, service: str) -> None:
        """Stop and remove it, if it is there: an agent may have died before it could."""
        name = self._name(service)
        found = await self._runtime.container(name)
        if found is not None:
            await self._door.stop(found, service=service)
            await self._door.remove(found, service=service)
        self._containers.forget_secrets(name)
        if self._journal.made_by(RUN + name + READER) is not None:
            reader = await self._runtime.container(name + READER)
            if reader is not None:
                await self._door.remove(reader, service=service)
            self._journal.forget_made(RUN + name + READER)
        if self._journal.made_by(RUN + name) is not None:
            await self._door.remove_network(name, service)
            self._journal.forget_made(RUN + name)

    async def _started(self, name: str, part: Part, proof: Receivable) -> Container:
        await self._pulled(part.spec)
        mounts = [await self._mount(name, part.spec, mount, proof) for mount in part.spec.mounts]
        spec = replace(part.spec, mounts=tuple(mounts), ports=(), exposed=False, network=name)
        labels = {LABEL_FLEET: self._fleet, LABEL_INFRASTRUCTURE: KIND}
        (place,) = closed.places(await self._runtime.closed_network(name, labels), [spec.component])
        await self._door.create(self._containers.beside(name, spec, KIND, place))
        found = await self._runtime.container(name)
        if found is None:
            raise ended(spec, "")
        await self._door.start(found, service=spec.service)
        return found

    async def _pulled(self, spec: ContainerSpec) -> None:
        if not await self._runtime.has_image(spec.reference):
            await self._runtime.pull(spec.reference, lambda line: None)

    async def _mount(self, name: str, spec: ContainerSpec, mount: Mount, proof: Receivable) -> Mount:
        """A volume of the backup, or a new one. Other paths of the host are only read: the service writes there."""
        volume = self._volume(spec, mount)
        if not volume:
            return replace(mount, read_only=True)
        reader = image_reader(spec, f"{name}{READER}")
        make = partial(self._storage.make_received, proof, volume, owner=mount.owner)
        return replace(mount, source=await filled(self._door, reader, mount.target, make))

    def _volume(self, spec: ContainerSpec, mount: Mount) -> str:
        """The name of a volume of the service; "" for another path."""
        own = f"{self._data_dir}/{spec.service}/"
        name = mount.source.removeprefix(own)
        return name if mount.source.startswith(own) and "/" not in name else ""
