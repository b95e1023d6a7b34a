"""What a volume begins with: a new one takes owner, mode and content of the image's directory, as named volumes of
container engines do. The passport says until then that the volume is new, so that after a crash it is done again, and
never once a container has had the volume."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from holdfast.agent.services.data.mounts import Mounts
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.door import Door
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, LABEL_SERVICE, ContainerSpec, Mount
from holdfast.model.passport import IN_DOUBT
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import CreateContainer
from holdfast.ports.storage import DataDirectory, Storage

T = TypeVar("T")
Places = list[tuple[str, Mount]]


class Filling:
    def __init__(self, passports: Passports, storage: Storage, mounts: Mounts, door: Door) -> None:
        self._passports = passports
        self._storage = storage
        self._mounts = mounts
        self._door = door

    async def fill(self, spec: ContainerSpec, places: Places, name: str) -> None:
        """Before a container gets them. `name` is in the journal: a container of that name is created to read the
        image, and removed."""
        for place, mount in places:
            passport = self._passports.of(place)
            if passport is None or not passport.is_new:
                continue
            found, is_given = self._storage.content(place), False
            began: tuple[int, ...] = ()
            if not has_data(found):
                allowed = self._mounts.may_fill(spec.service, place, found)
                is_given = await self._fill(spec, place, mount, name, allowed)
                began = measure(self._storage.content(place))
            # Else an agent died right after it had filled the volume, perhaps for another owner: `own` looks.
            owner = mount.owner if is_given else ""
            self._passports.keep(replace(passport, is_new=False, owner=owner, began=began))

    async def _fill(self, spec: ContainerSpec, place: str, mount: Mount, name: str, allowed: Allowed) -> bool:
        """Whether all of it belongs to the declared owner. If this is cancelled, the thread ends first: two may not
        fill one volume."""
        volume, loop, filling = place.partition("/")[2], asyncio.get_running_loop(), None
        try:
            async with self._door.image_directory(image_reader(spec, name), mount.target) as image:
                if image is not None:
                    work = partial(self._storage.fill, spec.service, volume, image, mount.owner, allowed)
                    filling = loop.run_in_executor(None, work)
                    return await asyncio.shield(filling)
                if mount.owner:
                    await _in_thread(partial(self._storage.own, spec.service, volume, mount.owner, allowed))
                return True
        finally:
            if filling is not None and not filling.done():
                await asyncio.wait([filling])

    async def own(self, service: str, places: Places) -> None:
        """Each volume once for each owner that is declared: what a program changes later is its own matter. The caller
        has stopped all writers, and made a checkpoint."""
        for place, mount in places:
            passport = self._passports.of(place)
            if passport is None or not mount.owner or passport.owner == mount.owner:
                continue
            found = self._storage.content(place)
            if found is None or found.owner != mount.owner or passport.owner == IN_DOUBT:
                allowed = self._mounts.may_own(service, place, mount.owner, found)
                self._passports.keep(replace(passport, owner=IN_DOUBT))  # cut off, the way back gives all of it, too
                volume = place.partition("/")[2]
                await _in_thread(partial(self._storage.own, service, volume, mount.owner, allowed))
            self._passports.keep(replace(self._passports.known[place], owner=mount.owner))


def has_data(found: DataDirectory | None) -> bool:
    return found is not None and found.entries > 0


def measure(found: DataDirectory | None) -> tuple[int, int]:
    """Entries and bytes, for the passport."""
    return (found.entries, found.size_bytes) if found is not None else (0, 0)


def image_reader(spec: ContainerSpec, name: str) -> CreateContainer:
    """Without mounts, which would hide what the image has; it is never started."""
    labels = {LABEL_FLEET: spec.fleet, LABEL_SERVICE: spec.service, LABEL_INFRASTRUCTURE: "hook"}
    bare = replace(spec, mounts=(), ports=(), secrets=(), network="")
    return CreateContainer(name, bare, labels, restart=False)


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
