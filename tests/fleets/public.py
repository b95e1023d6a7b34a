"""A fleet with an edge and a service that is public on it, and nodes that say what a test wants them to say."""

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.model.checkin import CheckInAnswer, JoinRequest
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.fleet import Component, Fleet, Node, Route, Service, Settings
from holdfast.model.report import ContainerState, EdgeState
from holdfast.model.revision import Entry
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.desks import Puppet, Rig

HOST = "web.example.test"
ADDRESSES = {"w1": "100.64.0.11", "w2": "100.64.0.12", "e1": "100.64.0.13"}
BEAT_S = 10.0


def public_service(version: int = 1, public: bool = True, **more: Any) -> Service:
    component = Component("web", digest_pinned(f"web:{version}"), routes=(Route("http", 8080, public=public),))
    return Service((component,), **more)


def public_fleet(**services: Service) -> Fleet:
    """w1 and w2 run services, e1 is the edge; without services there is one that is not public."""
    fleet = small_fleet(services or {"blog": 1}, ("w1", "w2"))
    nodes = {name: Node(name, ("edge" if name == "e1" else "worker",), address) for name, address in ADDRESSES.items()}
    return replace(fleet, settings=Settings("small", public_domains=("example.test",)), nodes=nodes)


async def joins_as_edge(puppet: Puppet) -> None:
    rig, once = puppet.rig, f"once {puppet.name}"
    enrolment = rig.enrolment(rig.invite(puppet.name, once, roles=("edge",)), puppet.name, puppet.key, once)
    await rig.desk.join(puppet.principal, JoinRequest(enrolment, puppet.name, ("edge",)), "192.0.2.1")


class Beating(Puppet):
    """Says the same again and again until it is told to say something else, and keeps the newest answer."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__(rig, name)
        self.report: dict[str, Any] = {"runtime": "memory 1"}
        self.answer: CheckInAnswer | None = None
        self.task: asyncio.Task[None] | None = None

    async def reports(self, **said: Any) -> None:
        self.report = {"runtime": "memory 1"} | said
        await self._beat()

    async def _beat(self) -> None:
        self.seen = self.rig.head
        self.answer = await self.beat(self.a_report(**self.report))

    def start(self) -> None:
        self.task = asyncio.create_task(self._live())

    def die(self) -> None:
        assert self.task is not None
        self.task.cancel()

    async def _live(self) -> None:
        while True:
            await self._beat()
            await asyncio.sleep(BEAT_S)

    @property
    def released(self) -> list[str]:
        return list(self.answer.released) if self.answer is not None else []

    @property
    def withdrawn(self) -> list[str]:
        return list(self.answer.withdrawn) if self.answer is not None else []

    @property
    def stands_in(self) -> list[str]:
        return list(self.answer.standby or ()) if self.answer is not None else []


def entry_of(rig: Rig, service: str = "web") -> Entry:
    applied = rig.hub.applied()
    assert applied is not None
    return applied.table.entries[f"service.{service}"]


def runs(rig: Rig, service: str = "web", phase: Any = "converged") -> dict[str, Any]:
    """What a node reports that runs what is applied now."""
    state = ServiceState(service, phase, deployment_of(entry_of(rig, service)))
    return {"services": (state,), "containers": (ContainerState(service, service, "running", id=service),)}


def carries(rig: Rig, phase: Any = "live", **more: Any) -> EdgeState:
    """What an edge reports that leads to where `web` is applied now."""
    entry = entry_of(rig)
    whole: dict[str, Any] = {"node": entry.node, "backend": entry.public[HOST].backend, "epoch": entry.epoch} | more
    return EdgeState(HOST, "web", "web", whole.pop("node"), whole.pop("backend"), phase, **whole)
