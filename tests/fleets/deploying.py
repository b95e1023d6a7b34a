"""One node and one hub, both running in virtual time over memory: what is applied is really deployed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.agent.agent import Agent
from holdfast.model.container import Container
from holdfast.model.deployment import ServiceState
from holdfast.model.fleet import Component, Fleet, Health, Route, Service
from tests.fleets import virtual
from tests.fleets.agents import Machine, kill, services_of, until
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop

HEALTH = Health("http", path="/health", port=8080, start_period="8s")


def image(version: int | str) -> str:
    return digest_pinned(f"web:{version}")


def service(version: int | str = 1, name: str = "main", **changed: Any) -> Service:
    return Service((component(version, name, **changed),))


def component(version: int | str = 1, name: str = "main", **changed: Any) -> Component:
    with_defaults = {"routes": (Route(f"{name}-http", 8080),), "health": HEALTH, **changed}
    return Component(name, image(version), **with_defaults)


class Scene:
    """One node, one hub, both running."""

    def __init__(self, loop: VirtualLoop, services: dict[str, Service] | Fleet) -> None:
        self.loop = loop
        self.rig = Rig(loop, services if isinstance(services, Fleet) else small_fleet(services))
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
        assert self.agent is not None
        await kill(self.agent, self.tasks[-1])

    def apply(self, services: dict[str, Service] | Fleet) -> None:
        self.rig.commit(services if isinstance(services, Fleet) else small_fleet(services))

    def state(self, name: str = "web") -> ServiceState | None:
        assert self.agent is not None
        return next((one for one in services_of(self.agent).status.states() if one.service == name), None)

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
        return list(self.machine.built.inventory.ours())

    def one(self) -> Container:
        (found,) = self.ours()
        return found

    def verbs(self, *wanted: str) -> list[str]:
        """Calls that changed something, in order, as "start main 0 (1)" with the version of the image."""
        return [f"{call.verb} {call.subject}" for call in self.machine.runtime.calls if call.verb in wanted]

    def findings(self) -> dict[str, str]:
        assert self.agent is not None
        return {found.code: found.message for found in self.agent.findings.all()}


Story = Callable[[Scene], Awaitable[None]]


def play(services: dict[str, Service] | Fleet, story: Story) -> None:
    async def whole(loop: VirtualLoop) -> None:
        async with Scene(loop, services) as scene:
            await story(scene)

    virtual.run(whole)
