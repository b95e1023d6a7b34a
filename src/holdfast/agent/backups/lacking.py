"""A volume that a backup did not bring begins as a new one of its service: with what the image has for it.

Restores and drills use it.
"""

import asyncio
from collections.abc import Callable

from holdfast.agent.services.door import Door
from holdfast.ports.runtime import CreateContainer, ImageDirectory


async def filled(door: Door, reader: CreateContainer, target: str, make: Callable[[ImageDirectory | None], str]) -> str:
    """The path that `make` answers, which blocks. `reader` is created to read the image, and removed; `target` is where
    the volume is mounted. If this is cancelled, the thread ends first: what it made can be removed then."""
    async with door.image_directory(reader, target) as image:
        work = asyncio.get_running_loop().run_in_executor(None, make, image)
        try:
            return await asyncio.shield(work)
        finally:
            await asyncio.wait([work])
