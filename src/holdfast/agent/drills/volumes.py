"""The volumes of a copy: those of the backup; what it did not bring begins as in a restore."""

import asyncio
from functools import partial

from msgspec.structs import replace

from holdfast.agent.backups.lacking import filled
from holdfast.agent.completing import completed
from holdfast.agent.services.data.filling import image_reader
from holdfast.agent.services.door import Door
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE
from holdfast.ports.scratch import Drillable, Scratch
from holdfast.reconcile.drill_copy import KIND, Copy


class Volumes:
    def __init__(self, door: Door, scratch: Scratch) -> None:
        self._door = door
        self._scratch = scratch

    async def make(self, proof: Drillable, copy: Copy) -> None:
        """Everything that it mounts is there afterwards. Its image is here."""
        labels = {LABEL_FLEET: copy.spec.fleet, LABEL_INFRASTRUCTURE: KIND}
        reader = replace(image_reader(copy.spec, copy.reader), labels=labels)
        for place, mount in zip(copy.places, copy.part.spec.mounts, strict=True):
            make = partial(self._scratch.volume, proof, place, owner=mount.owner)
            if await asyncio.to_thread(self._scratch.lacks, proof, place):
                await completed(filled(self._door, reader, mount.target, make))
            else:
                await completed(asyncio.to_thread(make))
