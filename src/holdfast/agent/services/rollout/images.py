"""Which images the runtime of this node has, asked once for several rollouts at a time."""

import asyncio
from collections.abc import Iterable

from holdfast.ports.runtime import Runtime

KEPT_MAX = 1000
VOLUMES_MAX = 100  # of an image, which may declare any number


class Images:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.known: set[str] = set()  # to be here
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._volumes: dict[str, tuple[str, ...]] = {}  # that they declare; those of a tag may change with it

    async def here(self, references: Iterable[str]) -> frozenset[str]:
        """Of these. Each caller goes by the answer it got, even if another rollout forgets the image meanwhile."""
        return frozenset([one for one in sorted(set(references)) if one in self.known or await self._is_here(one)])

    async def volumes(self, reference: str) -> tuple[str, ...]:
        """That this image declares; it must be here."""
        if reference not in self._volumes:
            if len(self._volumes) >= KEPT_MAX:
                self._volumes.clear()
            self._volumes[reference] = tuple(await self._runtime.image_volumes(reference))[:VOLUMES_MAX]
        return self._volumes[reference]

    def pulled(self, reference: str) -> None:
        self.known.add(reference)
        self._volumes.pop(reference, None)

    async def _is_here(self, reference: str) -> bool:
        if reference not in self._asked:
            self._asked[reference] = asyncio.ensure_future(self._ask(reference))
        return await asyncio.shield(self._asked[reference])

    async def _ask(self, reference: str) -> bool:
        try:
            here = await self._runtime.has_image(reference)
            if here:
                self.known.add(reference)
            return here
        finally:
            del self._asked[reference]
