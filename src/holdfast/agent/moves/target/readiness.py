"""Make this node ready to start a service that moves here."""

from collections.abc import Callable

from holdfast.agent.moves.declared import Moving
from holdfast.agent.services.rollout.images import Images
from holdfast.model.container import Guest
from holdfast.ports.runtime import Runtime


class Readiness:
    """`awaited` answers the containers of a service that waits here for its data."""

    def __init__(self, runtime: Runtime, images: Images, awaited: Callable[[str], Guest | None]) -> None:
        self._runtime = runtime
        self._images = images
        self._awaited = awaited

    async def prepare(self, moving: Moving) -> None:
        """What the start needs is fetched before the service stops at its source. The runtime is asked: what was here
        once may have been removed since."""
        guest = self._awaited(moving.service)
        for part in guest.parts if guest is not None else ():
            if not await self._runtime.has_image(part.spec.reference):
                await self._runtime.pull(part.spec.reference, lambda text: None)
                self._images.pulled(part.spec.reference)
