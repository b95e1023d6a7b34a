"""The picture of one service with its data: which components owe a checkpoint. It changes nothing but findings."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.services.data.undeclared import Undeclared
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.rollout.here import HereBuilder
from holdfast.agent.services.rollout.progress import Progress
from holdfast.model.container import Guest
from holdfast.reconcile.here import Here


class HereWithData:
    def __init__(self, here: HereBuilder, volumes: Volumes, undeclared: Undeclared) -> None:
        self._here = here
        self._volumes = volumes
        self._undeclared = undeclared

    def doubt(self, guests: Sequence[Guest | None]) -> None:
        self._here.doubt(guests)

    async def of(self, service: str, wanted: Guest | None, progress: Progress | None = None) -> Here:
        """`progress` is that of the rollout that asks; None for a mere look."""
        here = await self._here.of(service, wanted, progress)
        await self._undeclared.look(service, wanted, here.images)
        target = self._here.target_of(service, wanted)
        if target is None:
            return here
        runs = any(seen.may_run for seen in here.containers)
        ahead = frozenset(progress.ahead if progress is not None else ())
        return replace(here, owed=self._volumes.owed(target, runs), ahead=ahead)
