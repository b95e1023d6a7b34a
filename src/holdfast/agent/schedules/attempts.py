"""One attempt of a run: a container of its own, which goes on while no agent runs."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from holdfast.agent.services.door import Door
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import HoldfastError, TryLater
from holdfast.gate.containers import RUN
from holdfast.model.container import (
    LABEL_FLEET,
    LABEL_INFRASTRUCTURE,
    LABEL_SPEC,
    Container,
    ContainerSpec,
    spec_digest,
)
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime

LINES, LINE_CHARS = 20, 200
TAIL_S = 10.0
NOTED_S = 10.0  # after its process ended the runtime notes its exit code; without its supervisor it never does
LOST = "was cut off: its container is gone, or ended with its machine, so that its end is not known"
LOOK_S_FIRST, LOOK_S_MAX = 0.05, 1.0
PARALLEL = 4  # so many containers are created or started at a time


class Ended(Struct, frozen=True):
    """Of an attempt. `code` is None if its container did not start, or is gone."""

    outcome: Literal["done", "failed", "timed_out", "lost"]
    started_s: float
    duration_s: float
    code: int | None = None
    message: str = ""
    lines: tuple[str, ...] = ()


class Attempts:
    """`fleet` is the id of the fleet. The journal has the name of a container before it exists, until it is gone."""

    def __init__(
        self, *, runtime: Runtime, door: Door, containers: Containers, journal: Journal, clock: Clock, fleet: str
    ) -> None:
        self._runtime = runtime
        self._door = door
        self._journal = journal
        self._containers = containers
        self._clock = clock
        self._fleet = fleet
        self._places = asyncio.Semaphore(PARALLEL)

    async def create(self, name: str, spec: ContainerSpec, deployment: str) -> None:
        """A container that is there already was not started: an agent died before it could."""
        await self.discard(name, spec.service)
        if not await self._runtime.has_image(spec.reference):
            await self._runtime.pull(spec.reference, lambda line: None)
        labels = {LABEL_FLEET: self._fleet, LABEL_INFRASTRUCTURE: "run", LABEL_SPEC: spec_digest(spec)}
        self.own(name)
        async with self._places:
            await self._door.create(self._containers.prepared(name, spec, labels, deployment))

    def own(self, name: str) -> None:
        """The book of this agent names it."""
        if self._journal.made_by(RUN + name) is None:
            self._journal.note_made(RUN + name, "schedule", False)

    async def unknown(self) -> list[Container]:
        """Runs that the journal does not have: it was lost, or another program wrote these labels."""
        seen = [one.name for one in self._containers.labelled("run") if self._journal.made_by(RUN + one.name) is None]
        found = [await self._runtime.container(name) for name in seen]
        return [one for one in found if one is not None and self._journal.made_by(RUN + one.name) is None]

    async def is_unstarted(self, name: str) -> bool:
        """It is there, and was never started."""
        found = await self._runtime.container(name)
        return found is not None and _is_unstarted(found)

    async def start(self, name: str, service: str) -> None:
        """Once: a container that was started before is not started again, whether it runs or has ended."""
        async with self._places:
            found = await self._runtime.container(name)
            if found is not None and _is_unstarted(found):
                await self._door.start(found, service=service)

    async def follow(
        self, name: str, service: str, timeout_s: float, same_boot: bool, looked: Callable[[], None]
    ) -> Ended:
        """Until it ends, or its time is over: then it is ended. It may run since before this agent. The exit code of a
        container that a boot has ended proves nothing. `looked` is called from time to time."""
        found, since_s, now_s = await self._look(name), self._clock.monotonic_s(), self._clock.now_s()
        started_s = found.started_s if found is not None and found.started_s else now_s
        until_s = found.ended_s if found is not None and found.ended_s else now_s
        before_s = max(until_s - started_s, 0.0)  # of this run, before this agent looked
        pause_s, timed_out, alive_s = LOOK_S_FIRST, False, since_s
        while found is not None and not _has_ended(found):
            alive_s = self._clock.monotonic_s() if found.running else alive_s
            if self._clock.monotonic_s() - alive_s > NOTED_S:
                break
            if found.running and before_s + self._clock.monotonic_s() - since_s >= timeout_s:
                timed_out = True
                with suppress(TryLater):
                    await self._door.stop(found, service=service)
            looked()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_S_MAX)
            if not (found.running and self._runtime.is_alive(found)):  # the kernel is cheaper to ask
                found = await self._look(name)
        seen_s, now_s = before_s + alive_s - since_s, before_s + self._clock.monotonic_s() - since_s
        duration_s = round(_lasted_s(found, seen_s, now_s), 3)
        if found is None or not _has_ended(found) or not same_boot:
            return Ended("lost", started_s, duration_s, message=LOST)
        lines, code = await self._lines(found.id), found.exit_code
        if timed_out:
            return Ended("timed_out", started_s, duration_s, code, f"ended after its timeout of {timeout_s:g} s", lines)
        message = f"ended with exit code {code}" if code else ""
        return Ended("failed" if code else "done", started_s, duration_s, code, message, lines)

    async def discard(self, name: str, service: str) -> None:
        """Stop and remove it, if it is there."""
        found = await self._runtime.container(name)
        if found is not None:
            await self._door.stop(found, service=service)
            await self._door.remove(found, service=service)
        self._containers.forget_secrets(name)
        self._journal.forget_made(RUN + name)

    async def _look(self, name: str) -> Container | None:
        """However long the runtime does not answer."""
        while True:
            with suppress(TryLater):
                return await self._runtime.container(name)
            await asyncio.sleep(LOOK_S_MAX)

    async def _lines(self, id: str) -> tuple[str, ...]:
        found: list[str] = []
        with suppress(HoldfastError, TimeoutError, ValueError):
            async with asyncio.timeout(TAIL_S):
                async for line in self._runtime.logs(id, LINES, 0.0, False):
                    found.append(line.text.rstrip()[:LINE_CHARS])
        return tuple(found[-LINES:])


def _is_unstarted(container: Container) -> bool:
    return container.phase == "created" and not container.started_s


def _lasted_s(container: Container | None, seen_s: float, now_s: float) -> float:
    """It ran for at least `seen_s`, at most `now_s`. If the runtime did not answer in between, its own times say more;
    the clock of the machine may have jumped, so that they count within these bounds only."""
    if container is None or not container.ended_s or now_s - seen_s <= 2 * LOOK_S_MAX:
        return now_s
    return min(max(container.ended_s - container.started_s, seen_s), now_s)


def _has_ended(container: Container) -> bool:
    """The runtime has noted its exit code: a negative one is not known yet."""
    return container.phase == "exited" and container.exit_code >= 0
