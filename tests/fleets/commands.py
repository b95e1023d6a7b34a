"""A command line against a hub over memory, with puppets that say something whenever the command waits."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from shutil import rmtree
from typing import Any

from msgspec.structs import replace

from holdfast.cli import main
from holdfast.model.deployment import ServiceState, StepResult, deployment_of
from holdfast.model.fleet import Fleet
from holdfast.model.node_view import NodeNews, NodesAnswer
from holdfast.model.revision import Head
from tests.fleets.build import small_fleet
from tests.fleets.desks import Puppet, Rig
from tests.fleets.directories import files
from tests.fleets.tools import HUB, HUB_KEY, Box
from tests.fleets.virtual import VirtualLoop, run
from tests.specs.hub_fleet.test_verbs import Wire, at_once

Says = Callable[[], None]


class Ticking:
    """Time that passes when somebody sleeps."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.passed_s = 0.0
        self.sleeps: list[float] = []

    def now_s(self) -> float:
        return self._rig.clock.now_s() + self.passed_s

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.passed_s += seconds


class HeldWire(Wire):
    """A hub that holds a question for news; whatever happens meanwhile is `then`, one thing per question."""

    def __init__(self, rig: Rig, clock: Ticking) -> None:
        super().__init__(rig)
        self.clock = clock
        self.then: list[Says] = []
        self.asked = 0
        self.looked = 0
        self.at = 1

    def nodes_named(self, names: Any) -> NodesAnswer:
        self.looked += 1
        answer = self.nodes()
        return replace(answer, nodes=tuple(view for view in answer.nodes if view.name in names))

    def news(self, after: int, wait_s: float) -> NodeNews | None:
        self.asked += 1
        if after == 0:
            return NodeNews(self.at, (), True)
        if self.then:
            self.clock.passed_s += 0.1
            self.then.pop(0)()
            self.at += 1
            return NodeNews(self.at, ("w1", "w2"))
        self.clock.passed_s += wait_s
        return NodeNews(self.at)

    def converged(self, newest: int, limit: int) -> list[int]:
        heads = [Head(record.number, record.digest) for record in self.rig.hub.records(newest, limit)]
        return list(self.rig.desk.converged(heads))

    def commit(self, candidate: Any) -> Head:
        head = self.rig.hub.commit(candidate)
        self.rig.watched.follow()
        return head


class Operator(Box):
    """Has a fleet directory and runs commands in it."""

    def __init__(self, wire: HeldWire, home: Path, clock: Ticking, fleet: Fleet) -> None:
        super().__init__(home, wire, clock)
        self.held = wire
        self.fleet = fleet
        self.broken: dict[str, bytes] = {}  # files of the directory that are in the way, by path

    def does(self, *words: str, code: int = 0) -> str:
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        directory = self.home / "fleet"
        rmtree(directory / "services", ignore_errors=True)
        for path, text in {**files(self.fleet), **self.broken}.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(text)
        found = main.run([*words, "--fleet", str(directory), "--hub", HUB, "--yes"], self)
        assert found == code, (found, self.out.getvalue(), self.err.getvalue())
        return self.out.getvalue()

    @property
    def complaint(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.err.getvalue().strip().splitlines()[-1])
        return found


class Scene:
    """One hub, w1 that joined and w2 that may have, and an operator; `w1` has a service or two."""

    def __init__(self, rig: Rig, operator: Operator, puppets: list[Puppet]) -> None:
        self.rig, self.operator = rig, operator
        self.w1, self.w2 = puppets
        self.clock = operator.held.clock

    def deployment(self, service: str = "web") -> str:
        applied = self.rig.hub.applied()
        assert applied is not None
        return deployment_of(applied.table.entries[f"service.{service}"])

    def state(self, phase: Any, service: str = "web", **more: Any) -> ServiceState:
        number = self.rig.head.number
        serving: dict[str, Any] = (
            {"serving": self.deployment(service), "serving_revision": number} if phase == "converged" else {}
        )
        return ServiceState(service, phase, self.deployment(service), applied_revision=number, **(serving | more))

    def step(self, name: str, outcome: Any = "done", **more: Any) -> StepResult:
        return StepResult(name, outcome, self.clock.now_s(), **more)

    def says(self, *services: ServiceState, by: Puppet | None = None, accepts: bool = True, **more: Any) -> None:
        """A signed word of w1, which has accepted what is applied."""
        who = by or self.w1
        if accepts:
            who.seen = self.rig.head
        at_once(who.beat(who.a_report(services=services, **({"runtime": "memory 1"} | more))))

    def then(self, *what: Says) -> None:
        self.operator.held.then = list(what)


def scene(home: Path, story: Callable[[Scene], Coroutine[Any, Any, None]], fleet: Fleet | None = None) -> None:
    async def main(loop: VirtualLoop) -> None:
        declared = fleet or small_fleet(("web",), ("w1", "w2"))
        declared = replace(declared, settings=replace(declared.settings, hub_key=HUB_KEY))
        rig = Rig(loop, declared)
        puppets = [*(await rig.joined("w1")), Puppet(rig, "w2")]
        clock = Ticking(rig)
        operator = Operator(HeldWire(rig, clock), home, clock, declared)
        await story(Scene(rig, operator, puppets))

    run(main)


def changed(fleet: Fleet, **services: int) -> Fleet:
    """The same fleet with these services in these versions; 0 leaves one out."""
    kept = {name: service for name, service in fleet.services.items() if services.get(name, 1)}
    new = small_fleet({name: version for name, version in services.items() if version}).services
    return replace(fleet, services=kept | new)
