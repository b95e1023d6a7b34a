"""Whether a container beside its service, on new volumes, is initialised: it is healthy, and stays so."""

import asyncio
from contextlib import suppress

from holdfast.agent.services.door import Door, Ground
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import Failed, HoldfastError
from holdfast.gate.acts import Act
from holdfast.model import duration
from holdfast.model.container import SETTLE, Container, ContainerSpec, Part
from holdfast.ports.prober import HealthProber
from holdfast.ports.runtime import Runtime

LOOK_S = 0.25


class Initialised:
    """`prober` probes from inside: its network is closed."""

    def __init__(self, *, runtime: Runtime, door: Door, containers: Containers, prober: HealthProber) -> None:
        self._runtime = runtime
        self._door = door
        self._containers = containers
        self._prober = prober

    async def until(self, container: Container, part: Part, timeout_s: float, settle_s: float) -> None:
        """It has been healthy for `settle_s` without a break: some images start their program twice. Raises Failed."""
        loop, since_s, why = asyncio.get_running_loop(), None, "it was just started"
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    found = await self._runtime.container(container.name)
                    if found is None or not found.running:
                        raise ended(part.spec, await self._containers.last_words(found or container))
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
            try:
                allowed = self._door.touch(container, Ground(Act.EXEC), part.spec.service)
                verdict = await self._prober.probe(container, check, allowed)
            except HoldfastError as trouble:
                return trouble.message
            if not verdict.ok:
                return verdict.why
        return ""


def settle_s(part: Part) -> float:
    return duration.milliseconds(SETTLE if part.checks else part.settle) / 1000


def ended(spec: ContainerSpec, words: str) -> Failed:
    return Failed(
        f"{spec.component} of {spec.service} was started on the restored volumes and ended{words}; the data of the "
        "service is unchanged",
        remedy=f"`holdfast backup list {spec.service}` shows other backups",
        code="ended_early",
    )
