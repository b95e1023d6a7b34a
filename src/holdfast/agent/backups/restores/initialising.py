"""A container of a service on the volumes of an unpacked backup, beside the service: started until it is healthy.

It publishes no port, is in no network of its service, and nothing of it stays.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace

from holdfast.agent.services.data.filling import image_reader
from holdfast.agent.services.door import Door, Ground
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import Failed, HoldfastError
from holdfast.gate.acts import Act
from holdfast.gate.containers import RUN
from holdfast.model import duration
from holdfast.model.container import SETTLE, Container, ContainerSpec, Mount, Part
from holdfast.ports.journal import Journal
from holdfast.ports.prober import Prober
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Receivable, Storage

LOOK_S = 0.25


class Initialising:
    """`data_dir` has the data of each service; `fleet` is the id of the fleet. The journal has the name of the
    container before it exists, until it is gone."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        door: Door,
        containers: Containers,
        journal: Journal,
        prober: Prober,
        storage: Storage,
        data_dir: str,
        fleet: str,
    ) -> None:
        self._runtime = runtime
        self._door = door
        self._containers = containers
        self._journal = journal
        self._prober = prober
        self._storage = storage
        self._data_dir = data_dir
        self._fleet = fleet

    @asynccontextmanager
    async def healthy(self, part: Part, proof: Receivable, timeout_s: float) -> AsyncIterator[Container]:
        """The container runs and is initialised. When the work is done it must still be healthy; then it is stopped
        and removed. Raises Failed if it is not."""
        name = self._name(part.spec.service)
        await self.discard(part.spec.service)
        self._journal.note_made(RUN + name, "load", False)
        try:
            found = await self._started(name, part, proof)
            await self._until_healthy(found, part, timeout_s, _settle_s(part))
            yield found
            await self._until_healthy(found, part, timeout_s, 0.0)
        finally:
            await asyncio.shield(self.discard(part.spec.service))

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
        self._journal.forget_made(RUN + name)

    async def _started(self, name: str, part: Part, proof: Receivable) -> Container:
        if not await self._runtime.has_image(part.spec.reference):
            await self._runtime.pull(part.spec.reference, lambda line: None)
        mounts = [await self._mount(name, part.spec, mount, proof) for mount in part.spec.mounts]
        spec = replace(part.spec, mounts=tuple(mounts), ports=(), exposed=False, network="")
        await self._door.create(self._containers.beside(name, spec))
        found = await self._runtime.container(name)
        if found is None:
            raise _ended(spec, name)
        await self._door.start(found, service=spec.service)
        return found

    async def _mount(self, name: str, spec: ContainerSpec, mount: Mount, proof: Receivable) -> Mount:
        """A volume of the backup, or a new one. Other paths of the host are only read: the service writes there."""
        own = f"{self._data_dir}/{spec.service}/"
        volume = mount.source.removeprefix(own)
        if not mount.source.startswith(own) or "/" in volume:
            return replace(mount, read_only=True)
        async with self._door.image_directory(image_reader(spec, f"{name}-image"), mount.target) as image:
            work = asyncio.get_running_loop().run_in_executor(
                None, self._storage.make_received, proof, volume, image, mount.owner
            )
            try:
                return replace(mount, source=await asyncio.shield(work))
            finally:
                await asyncio.wait([work])

    async def _until_healthy(self, container: Container, part: Part, timeout_s: float, settle_s: float) -> None:
        """For `settle_s` without a break: some images start their program twice until it is initialised."""
        loop, since_s, why = asyncio.get_running_loop(), None, "it was just started"
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    found = await self._runtime.container(container.name)
                    if found is None or not found.running:
                        raise _ended(part.spec, await self._containers.last_words(found or container))
                    why = await self._illness(found, part)
                    since_s = None if why else since_s if since_s is not None else loop.time()
                    if since_s is not None and loop.time() - since_s >= settle_s:
                        return
                    await asyncio.sleep(LOOK_S)
        raise Failed(
            f"{part.spec.component} of {part.spec.service} was started on the restored volumes and was not healthy "
            f"within {timeout_s:g} s: {why}; the data of the service is unchanged",
            remedy=f"look at its health check; `holdfast backup list {part.spec.service}` shows other backups",
            code="unhealthy",
        )

    async def _illness(self, container: Container, part: Part) -> str:
        for check in part.checks:
            allowed = None
            if check.type == "exec":
                allowed = self._door.touch(container, Ground(Act.EXEC), part.spec.service)
            try:
                verdict = await self._prober.probe(container, check, allowed)
            except HoldfastError as trouble:
                return trouble.message
            if not verdict.ok:
                return verdict.why
        return ""


def _settle_s(part: Part) -> float:
    return duration.milliseconds(SETTLE if part.checks else part.settle) / 1000


def _ended(spec: ContainerSpec, words: str) -> Failed:
    return Failed(
        f"{spec.component} of {spec.service} was started on the restored volumes and ended{words}; the data of the "
        "service is unchanged",
        remedy=f"`holdfast backup list {spec.service}` shows other backups",
        code="ended_early",
    )
