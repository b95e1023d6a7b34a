"""What this node reports of data without a running service: retired, set aside, refused, and checkpoints."""

import asyncio
from collections.abc import Callable

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Revision
from holdfast.agent.services.data.asides import LOOK_S, Asides
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.left import LeftData
from holdfast.agent.services.data.volumes import Volumes
from holdfast.errors import HoldfastError
from holdfast.model.report import ReportedCheckpoints, RetiredData, Unattached
from holdfast.ports.clock import Clock

NOT_TENDED = "data_not_tended"


class Retired:
    def __init__(
        self,
        *,
        left: LeftData,
        volumes: Volumes,
        checkpoints: Checkpoints,
        asides: Asides,
        clock: Clock,
        findings: Findings,
        changed: Callable[[], None],
    ) -> None:
        self._left = left
        self._volumes = volumes
        self._checkpoints = checkpoints
        self._asides = asides
        self._clock = clock
        self._findings = findings
        self._changed = changed
        self._revision: Revision | None = None
        self._next_s = 0.0
        self._found: tuple[RetiredData, ...] = ()
        self._told: tuple[RetiredData, ...] = ()

    def follow(self, revision: Revision) -> None:
        """Services that leave with it leave data behind: it is looked at now."""
        self._revision, self._next_s = revision, 0.0

    async def look(self) -> None:
        """Sizes are measured every LOOK_S. Trouble is a finding: services are kept all the same."""
        if self._clock.monotonic_s() < self._next_s:
            return
        troubles = []
        for look in (self._asides.look, self.look_again):
            try:
                await look()
            except HoldfastError as trouble:
                troubles.append(trouble)
        if troubles:
            self._findings.add_trouble(NOT_TENDED, troubles[0])
        else:
            self._findings.clear(NOT_TENDED)

    async def look_again(self) -> None:
        """Reported with the result of an order: an operator who reads that asks next what is left."""
        self._next_s = self._clock.monotonic_s() + LOOK_S
        await self._checkpoints.look()
        await self._asides.look_at_disk()
        self._found = await asyncio.get_running_loop().run_in_executor(None, self._left_behind)
        if self.found != self._told:
            self._told = self.found
            self._changed()

    @property
    def found(self) -> tuple[RetiredData, ...]:
        return (*self._found, *self._asides.found)

    @property
    def checkpoints(self) -> ReportedCheckpoints:
        return self._checkpoints.reported

    @property
    def unattached(self) -> tuple[Unattached, ...]:
        return self._volumes.unattached

    def is_applied(self, name: str) -> bool:
        """Unknown counts as applied: before a revision was read, nothing is called unused."""
        revision = self._revision
        return revision is None or any(
            f"service.{name}" in held
            for held in (revision.manifest.services, revision.manifest.standby, revision.awaited)
        )

    def is_in_transit(self, name: str) -> bool:
        """Another node does not have all of it yet."""
        return self._revision is None or self._left.is_in_transit(name, self._revision.manifest)

    def removed_in(self, name: str) -> int:
        stone = self._revision.tombstones.get(f"service.{name}") if self._revision is not None else None
        return stone.removed_in if stone is not None else 0

    def _left_behind(self) -> tuple[RetiredData, ...]:
        return self._left.look(self._revision, self._found) if self._revision is not None else ()
