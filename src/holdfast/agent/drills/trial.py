"""The service is tried on a restored backup: components start, a dump is loaded, health and cmd are looked at."""

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.agent.backups.declared import Wanted
from holdfast.agent.drills.copying import Copies
from holdfast.agent.drills.volumes import Volumes
from holdfast.agent.time import NodeTime
from holdfast.model.archive import Header
from holdfast.model.drill import Drill
from holdfast.model.duration import milliseconds
from holdfast.ports.archive import Progress
from holdfast.ports.scratch import Drillable, Scratch
from holdfast.reconcile.drill_copy import Copy

Tell = Callable[[str, Progress | None], None]  # the step, and how far it is


class Trial:
    def __init__(self, copies: Copies, volumes: Volumes, scratch: Scratch, time: NodeTime) -> None:
        self._copies = copies
        self._volumes = volumes
        self._scratch = scratch
        self._time = time
        self.wanted = copies.wanted
        self.last_lines = copies.last_lines

    async def begin(
        self,
        every: Sequence[Copy],
        wanted: Wanted,
        proof: Drillable,
        header: Header,
        evidence: list[str],
        tell: Tell,
    ) -> None:
        """Every container is there afterwards. If a command must bring the backup back, it has done so, in a component
        that ran alone: another one would have written before the data was there."""
        loader = self._copies.loader(every, wanted, header)
        tell("starting", None)
        await self._copies.make(every, partial(self._volumes.make, proof))
        if loader is None:
            return
        tell("loading the dump", None)
        await self._copies.start([loader])
        await self._copies.load(loader, wanted, self._scratch.path(proof.id), header)
        evidence.append(f"the dump was loaded in {loader.spec.component} by the service's own command")

    async def judge(self, every: Sequence[Copy], declared: Drill | None, evidence: list[str], tell: Tell) -> None:
        """Raises Failed unless every component becomes healthy and cmd of the drill ends with 0."""
        timeout = declared.timeout if declared is not None else Drill(("-",)).timeout
        until_s = self._time.monotonic_s() + milliseconds(timeout) / 1000
        await self._copies.start(every)
        tell("health checks", None)
        await self._copies.healthy(every, until_s, evidence.append)
        if declared is not None:
            tell("cmd of [drill]", None)
            with_data = next((copy for copy in every if copy.places), every[0])
            await self._copies.command(with_data, declared, until_s)
            evidence.append(f"cmd of [drill] ended with exit code 0 in {with_data.spec.component}")
