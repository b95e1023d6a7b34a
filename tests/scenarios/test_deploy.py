"""A hub and an agent over memory: what is applied runs, what fails leaves the old serving, what leaves goes away."""

import asyncio
from typing import Any

from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.agent.loop import Agent
from holdfast.model.container import Container
from holdfast.model.deployment import ServiceState
from holdfast.model.fleet import Component, Health, Route, Service
from holdfast.ports.prober import Verdict
from tests.fleets import virtual
from tests.fleets.agents import Machine, until
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop

HEALTH = Health("http", path="/health", port=8080, start_period="8s")


def service(version: int = 1, **changed: Any) -> Service:
    route = Route("http", 8080)
    return Service((Component("main", digest_pinned(f"web:{version}"), routes=(route,), health=HEALTH, **changed),))


class Scene:
    """One node, one hub, both running."""

    def __init__(self, loop: VirtualLoop, services: dict[str, Service]) -> None:
        self.loop = loop
        self.rig = Rig(loop, small_fleet(services))
        self.machine = Machine(self.rig, "w1")
        self.agent: Agent | None = None
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Scene":
        self.tasks.append(asyncio.ensure_future(self.rig.desk.run()))
        self.start()
        return self

    async def __aexit__(self, *ignored: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def start(self) -> None:
        self.agent = self.machine.start()
        self.tasks.append(asyncio.ensure_future(self.agent.run()))

    async def kill(self) -> None:
        self.tasks[-1].cancel()
        await asyncio.gather(self.tasks[-1], return_exceptions=True)

    def apply(self, services: dict[str, Service]) -> None:
        self.rig.commit(small_fleet(services))

    def state(self, name: str = "web") -> ServiceState | None:
        assert self.agent is not None
        return next((one for one in self.agent.services.states() if one.service == name), None)

    async def settled(self, phase: str = "converged", name: str = "web", at_most_s: float = 60.0) -> ServiceState:
        head = self.rig.head

        def there() -> bool:
            assert self.agent is not None
            state = self.state(name)
            return self.agent.accepting.seen == head and state is not None and state.phase == phase

        await until(self.rig, there, at_most_s)
        found = self.state(name)
        assert found is not None
        return found

    def ours(self) -> list[Container]:
        assert self.agent is not None
        return list(self.agent.services.crew.yard.ours())


def test_what_is_applied_runs_and_is_reported_m_09_t_01() -> None:
    async def story(loop: VirtualLoop) -> None:
        async with Scene(loop, {"web": service()}) as scene:
            state = await scene.settled()
            assert state.serving == state.applied and state.applied_revision == 1
            (one,) = scene.ours()
            assert one.running and one.labels["holdfast.service"] == "web" and one.labels["holdfast.epoch"] == "1"
            names = [step.name for step in state.steps]
            assert [name.split()[0] for name in names] == ["pull", "create", "start", "healthy", "switch"]

    virtual.run(story)
