"""The containers of a drill: created in a closed network, started, watched until they are healthy."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from holdfast.agent.backups.declared import Declarations, Wanted
from holdfast.agent.backups.loading import Loading
from holdfast.agent.completing import completed
from holdfast.agent.services.door import Door, Ground
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.errors import Failed, HoldfastError
from holdfast.gate.acts import Act
from holdfast.model.archive import Header
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, Container
from holdfast.model.drill import LINE_CHARS, LINES, Drill
from holdfast.model.duration import milliseconds
from holdfast.ports.clock import Clock
from holdfast.ports.runtime import Runtime
from holdfast.reconcile import drill_copy
from holdfast.reconcile.drill_copy import KIND, Copy

LOOK_S = 0.2
TAIL_S = 5.0
STARTS_MAX = 6  # podman starts a crashed container of a service five times again; here the agent does
EXEC = Ground(Act.EXEC)


class Copies:
    """`health` probes them from inside."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        door: Door,
        containers: Containers,
        health: HealthChecks,
        clock: Clock,
        loading: Loading,
        declared: Declarations,
    ) -> None:
        self._runtime = runtime
        self._door = door
        self._containers = containers
        self._health = health
        self._clock = clock
        self._loading = loading
        self._declared = declared

    def wanted(self, service: str) -> Wanted:
        """How its backups are made and brought back, as declared now: a revision that comes later is for a later
        drill."""
        found = self._declared.found.get(service)
        if found is None:
            raise Failed(
                f"{service} is not backed up on this node any more",
                remedy=f"`holdfast backup list {service}` shows its backups",
                code="not_declared",
            )
        return found

    def loader(self, every: Sequence[Copy], wanted: Wanted, header: Header) -> Copy | None:
        """The one that a command must bring this backup back in; None: its files are the data. Raises Invalid if the
        service declares no such command."""
        if not self._loading.needs(header, wanted.snapshot, wanted.service):
            return None
        found = next((copy for copy in every if copy.spec.component == wanted.component), None)
        if found is None:
            raise Failed(
                f"{wanted.service} serves without its component {wanted.component}, which must load the dump",
                remedy=f"holdfast ps {wanted.service}",
                code="not_serving",
            )
        return found

    async def load(self, copy: Copy, wanted: Wanted, top: str, header: Header) -> None:
        """Into a component that was started on empty volumes, once it is initialised. Raises Failed."""
        await self._loading.load(await self._there(copy), copy.part, top, header, wanted.snapshot)

    async def make(self, every: Sequence[Copy], volumes: Callable[[Copy], Awaitable[None]]) -> None:
        """`volumes` makes what one of them mounts, once its image is here."""
        first = every[0].spec
        labels = {LABEL_FLEET: first.fleet, LABEL_INFRASTRUCTURE: KIND}
        subnet = await completed(self._runtime.closed_network(first.network, labels))
        closed = drill_copy.addresses(subnet, tuple(every))
        for copy in every:
            if not await self._runtime.has_image(copy.spec.reference):
                await self._runtime.pull(copy.spec.reference, lambda line: None)
            await volumes(copy)
            made = self._containers.beside(copy.name, copy.spec, KIND, closed[copy.name])
            await completed(self._door.create(made))

    async def start(self, copies: Sequence[Copy]) -> None:
        for copy in copies:
            await completed(self._door.start(await self._there(copy), service=copy.spec.service))

    async def _there(self, copy: Copy) -> Container:
        found = await self._runtime.container(copy.name)
        if found is None:
            raise Failed(
                f"the container of {copy.spec.component} is gone: another program removed it",
                remedy=f"holdfast drill {copy.spec.service}",
                code="container_gone",
            )
        return found

    async def healthy(self, every: Sequence[Copy], until_s: float, told: Callable[[str], None]) -> None:
        """All of them at once. Raises Failed (`not_healthy`) if they do not become so. `told` gets each that did."""
        starts, seen = dict.fromkeys((copy.name for copy in every), 1), set[str]()
        try:
            while True:
                well = {copy.name for copy in every if await self._is_well(copy, starts)}
                for copy in every:
                    if copy.name in well - seen:
                        told(_seen(copy, self._health.settle_s(copy.part)))
                seen |= well
                if len(well) == len(every):
                    return
                if self._clock.monotonic_s() > until_s:
                    late = sorted(copy.spec.component for copy in every if copy.name not in well)
                    raise unhealthy(f"{', '.join(late)} did not become healthy in time", every[0].spec.service)
                await asyncio.sleep(LOOK_S)
        finally:
            for copy in every:
                found = None
                with suppress(HoldfastError):
                    found = await self._runtime.container(copy.name)
                if found is not None:
                    self._health.forget(found.id)

    async def _is_well(self, copy: Copy, starts: dict[str, int]) -> bool:
        found, component = await self._there(copy), copy.spec.component
        is_crashed = found.phase == "exited" and found.exit_code != 0
        if is_crashed and starts[copy.name] < STARTS_MAX:
            starts[copy.name] += 1
            await self._door.start(found, service=copy.spec.service)
            found = await self._there(copy)
        seen = self._health.seen(found, copy.part)
        if seen.health in ("failed", "unhealthy"):
            why = self._health.why(found.id)
            end = f"it ended with exit code {found.last_end or found.exit_code}" if not found.running else ""
            raise unhealthy(f"{component} is not healthy: {why or end or 'it does not answer'}", copy.spec.service)
        return seen.is_well

    async def command(self, copy: Copy, drill: Drill, until_s: float) -> None:
        """Raises Failed (`drill_cmd_failed`) unless it ends with 0."""
        found = await self._there(copy)
        timeout_s = max(min(milliseconds(drill.timeout) / 1000, until_s - self._clock.monotonic_s()), 1.0)
        done = await self._runtime.exec(
            found.id, drill.cmd, timeout_s, self._door.touch(found, EXEC, copy.spec.service)
        )
        if done.code != 0:
            last = done.output.strip().rpartition("\n")[2][-LINE_CHARS:]
            raise Failed(
                f"cmd of [drill] ended with exit code {done.code} in {copy.spec.component}"
                + (f": {last}" if last else ""),
                remedy=remedy(copy.spec.service),
                code="drill_cmd_failed",
            )

    async def last_lines(self, every: Sequence[Copy]) -> tuple[str, ...]:
        found: list[str] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(TAIL_S):
                for copy in every:
                    name = f"{copy.spec.component}: " if len(every) > 1 else ""
                    with suppress(HoldfastError, ValueError):  # one that was not started has none
                        id = (await self._there(copy)).id
                        async for line in self._runtime.logs(id, LINES, 0.0, False):
                            found.append(f"{name}{line.text.rstrip()}"[:LINE_CHARS])
        return tuple(found[-LINES:])


def remedy(service: str) -> str:
    return (
        f"`holdfast drill {service} --backup ID` proves an older one; `holdfast backup list {service}` shows them; "
        f"`holdfast restore {service} --backup ID --beside` brings one back beside the data, to look at it"
    )


def unhealthy(words: str, service: str) -> Failed:
    return Failed(words, remedy=remedy(service), code="not_healthy")


def _seen(copy: Copy, settle_s: float) -> str:
    checks = copy.part.checks
    if not checks:
        return f"{copy.spec.component} stayed up for {settle_s:g} s"
    words = " and ".join(f"{one.type} {_place(one.port, one.path)}".strip() for one in checks)
    return f"{copy.spec.component} is healthy: {words}"


def _place(port: object, path: object) -> str:
    return " ".join(str(one) for one in (port, path) if isinstance(one, int | str))
