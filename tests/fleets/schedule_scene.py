"""One node in virtual time whose service has a schedule: what it runs, and what refuses to work meanwhile."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.container import Container
from holdfast.model.fleet import Service, Volume
from holdfast.model.schedule import Schedule, ScheduleState
from tests.fleets.deploying import Scene, Story, play, service
from tests.fleets.desks import OPERATOR

JOB = ("backup", "--all")
DATA = (Volume("db", "/data", "none"),)


def job(cron: str = "*/5 * * * *", **changed: object) -> Schedule:
    return Schedule("nightly", "main", cron, JOB, **changed)  # type: ignore[arg-type]


def with_job(*schedules: Schedule, version: int = 1, **changed: Any) -> dict[str, Service]:
    return {"web": replace(service(version, **changed), schedule=schedules or (job(),))}


def with_data(version: int = 1, **changed: Any) -> dict[str, Service]:
    return with_job(volumes=DATA, version=version, **changed)


def play_runs(
    story: Story, services: dict[str, Service] | None = None, after_s: float | None = None, **behaviour: Any
) -> None:
    """The service runs when the story begins: `after_s` after the next minute that divides by five, or before it."""

    async def whole(one: Scene) -> None:
        behaves(one, **behaviour)
        await one.settled()
        if after_s is not None:
            await asyncio.sleep(at_five(one) + after_s)
        await story(one)

    play(services or with_job(), whole)


def play_data(
    story: Story, services: dict[str, Service] | None = None, after_s: float | None = None, **behaviour: Any
) -> None:
    """The same, and the service has written data."""

    async def whole(one: Scene) -> None:
        one.machine.storage.contents["web"]["db/page"] = b"the only copy"
        if after_s is not None:
            await asyncio.sleep(at_five(one) + after_s)
        await story(one)

    play_runs(whole, services or with_data(), **behaviour)


class Runs:
    """The runs of a scene: each start of a run's container, with the minute it is for."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def started(self) -> list[str]:
        calls = self._scene.machine.runtime.calls
        return [call.subject for call in calls if call.verb == "start" and "_run-" in call.subject]

    @property
    def minutes(self) -> list[int]:
        return [int(name.split("-")[-2], 16) for name in self.started]

    def containers(self) -> list[Container]:
        kept = self._scene.machine.runtime._kept.values()
        return [one.seen for one in kept if "_run-" in one.seen.name]


def state(scene: Scene) -> ScheduleState:
    assert scene.agent is not None
    keeper = next(one for one in scene.agent.keepers.every if one.name == "schedules")
    (found,) = keeper.section().schedules  # type: ignore[attr-defined]
    assert isinstance(found, ScheduleState)
    return found


def at_five(scene: Scene) -> float:
    """Seconds until the next minute that divides by five."""
    return 300.0 - scene.rig.clock.now_s() % 300.0


def behaves(scene: Scene, **changed: object) -> None:
    scene.machine.runtime.behaviours[JOB] = Behaviour(**{"exit_after_s": 20.0, "says": ("copied 3 files",), **changed})  # type: ignore[arg-type]


def hold(one: Scene, held: bool) -> None:
    records = one.machine.built.services.records
    records.keep("web", replace(records.of("web"), held=held))


async def ordered(one: Scene, counter: int, schedule: str = "nightly") -> tuple[str, str]:
    """State and message of an order to run a schedule now."""
    signed = one.rig.order("w1", counter, "run-schedule", target="service.web", schedule=schedule)
    await one.rig.desk.submit(OPERATOR, signed)
    await asyncio.sleep(5)
    (view,) = [view for view in one.rig.desk.orders("w1", 100).orders if view.counter == counter]
    return view.state, view.result.message if view.result is not None else ""


AWAY = TryLater("cut", remedy="", code="runtime_away")


@contextmanager
def refusing(
    part: Any, verb: str, trouble: HoldfastError = AWAY, only: Callable[..., bool] = lambda *given: True
) -> Iterator[list[Any]]:
    """Calls of this verb raise, and what they were given first is noted; only those that are meant."""
    act, asked = getattr(part, verb), list[Any]()

    def refuse(*given: Any) -> Any:
        if not only(*given):
            return act(*given)
        asked.append(given[0])
        raise trouble

    async def refuse_later(*given: Any) -> Any:
        found = refuse(*given)
        return await found

    setattr(part, verb, refuse_later if iscoroutinefunction(act) else refuse)
    try:
        yield asked
    finally:
        setattr(part, verb, act)
