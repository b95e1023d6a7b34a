"""A home dies and a listed node stands in; it comes back and serves, and the stand-in ends. In virtual time (I-31)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.checkin import CheckInAnswer
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.fleet import Fleet, Service
from holdfast.model.report import ContainerState
from holdfast.planning.plan import plan_drain
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import signed, small_fleet, small_service
from tests.fleets.desks import Puppet, Rig
from tests.fleets.virtual import VirtualLoop, run

WEB = "service.web"
WINDOW_S = 90.0 + 5.0 + 10.0  # silence, probe, and the poll in which the node spoke last


class Running(Puppet):
    """A node that reports services, and remembers what it was told to run for others, and when that changed."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__(rig, name)
        self.services: dict[str, ServiceState] = {}
        self.told: list[tuple[float, tuple[str, ...] | None]] = []
        self.released: list[tuple[float, tuple[str, ...]]] = []
        self.task: asyncio.Task[None] | None = None
        self.has_looked = True  # at its containers

    def deployment(self, service: str) -> str:
        applied = self.rig.hub.applied()
        assert applied is not None
        return deployment_of(applied.table.entries[f"service.{service}"])

    def runs(self, service: str, phase: Any = "converged", standby: bool = False, deployment: str = "") -> None:
        applied = deployment or self.deployment(service)
        self.services[service] = ServiceState(service, phase, applied, standby=standby)

    def report(self) -> bytes:
        states = tuple(self.services[name] for name in sorted(self.services))
        containers = tuple(ContainerState(state.service, "main", "running") for state in states if self.has_looked)
        return self.a_report(services=states, containers=containers)

    def start(self) -> None:
        self.task = asyncio.create_task(self._live())

    def die(self) -> None:
        assert self.task is not None
        self.task.cancel()

    async def _live(self) -> None:
        said, beat_s = b"", -30.0
        while True:
            report, now_s = self.report(), self.rig.loop.time()
            if report != said or now_s - beat_s >= 30.0:
                said, beat_s = report, now_s
                answer = await self.beat(report)
                self._heard(answer)
            self._heard(await self.says(wait_s=10.0))

    def _heard(self, answer: CheckInAnswer) -> None:
        self.seen = answer.head
        if not self.told or self.told[-1][1] != answer.standby:
            self.told.append((self.rig.loop.time(), answer.standby))
        if (self.released[-1][1] if self.released else ()) != answer.released:
            self.released.append((self.rig.loop.time(), answer.released))

    @property
    def stands_in(self) -> tuple[str, ...]:
        """As it was told last by a hub that knew; no word leaves everything as it is."""
        return next((said for _, said in reversed(self.told) if said is not None), ())

    def changes(self) -> list[tuple[str, ...]]:
        words = [said for _, said in self.told if said is not None]
        return [said for at, said in enumerate(words) if at == 0 or words[at - 1] != said]


def listed(*failover: str) -> Service:
    return replace(small_service("web"), node="w1", failover=failover)


Story = Callable[[VirtualLoop, Rig, list[Running]], Coroutine[Any, Any, None]]


def scene(story: Story, service: Service, *names: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        names_ = names or ("w1", "w2", "w3")
        rig = Rig(loop, fleet_of(service, *names_))
        nodes = [Running(rig, name) for name in names_]
        for node in nodes:
            await node.join()
        nodes[0].runs("web")
        for node in nodes:
            node.start()
        hub = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(60)
        assert rig.desk.nodes().ready
        await story(loop, rig, nodes)
        hub.cancel()
        for node in nodes:
            node.die()

    run(main)


def fleet_of(service: Service, *names: str) -> Fleet:
    return small_fleet({"web": service}, names or ("w1", "w2", "w3"))


async def until(loop: VirtualLoop, true: Callable[[], bool], at_most_s: float) -> float:
    began_s = loop.time()
    while not true():
        assert loop.time() - began_s <= at_most_s, "it did not happen"
        await asyncio.sleep(0.1)
    return loop.time() - began_s


def findings(rig: Rig) -> dict[str, str]:
    return {f.code: f.address for f in rig.desk.status_findings()}


def test_a_home_dies_is_stood_in_for_once_and_gets_its_service_back_when_it_runs_it() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, w3 = nodes
        assert (w2.stands_in, w3.stands_in) == ((), ()) and w2.told[-1][1] == ()
        w1.die()
        took_s = await until(loop, lambda: w3.stands_in == (WEB,), WINDOW_S + 1)
        assert took_s > 80
        w3.runs("web", standby=True)
        await asyncio.sleep(600)
        assert w3.changes() == [(), (WEB,)] and w2.changes() == [()], "named once, and nobody else"
        found = findings(rig)
        assert found["failed_over"] == WEB and "orphan" not in found and "still_moving" not in found
        assert rig.told.said == [("node_silent", "node.w1")], "no alert of its own"

        w1.runs("web", "settling")
        w1.start()
        await asyncio.sleep(120)
        assert w3.stands_in == (WEB,), "back, but it does not run it yet"
        w1.has_looked = False
        w1.runs("web")
        await asyncio.sleep(60)
        assert w3.stands_in == (WEB,), "an agent that has just started says how it was before"
        w1.has_looked = True
        assert await until(loop, lambda: w3.stands_in == (), 41) <= 41
        del w3.services["web"]
        await asyncio.sleep(60)
        assert w3.changes() == [(), (WEB,), ()] and "failed_over" not in findings(rig)

    scene(story, listed("w3", "w2"))


def test_a_node_is_told_at_once_whether_it_holds_a_line_or_asks_a_moment_later() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        w1.die()
        await until(loop, lambda: bool(rig.standby.services_on("w2")), WINDOW_S + 1)
        assert await until(loop, lambda: w2.stands_in == (WEB,), 1) <= 0.2, "its bell was rung"
        w1.start()
        await until(loop, lambda: w2.stands_in == (), 11)
        w1.die()
        await asyncio.sleep(80)
        w2.die()
        await until(loop, lambda: bool(rig.standby.services_on("w2")), WINDOW_S + 1)
        asked_s = loop.time()
        assert (await w2.says(wait_s=10.0)).standby == (WEB,) and loop.time() == asked_s, "it was news"
        assert (await w2.says(wait_s=10.0)).standby == (WEB,) and loop.time() == asked_s + 10.0, "it was not any more"

    scene(story, listed("w2"))


def test_a_home_that_was_only_cut_off_proves_itself_with_its_first_word() -> None:
    """Its report is the one the hub has already; only a word newer than its return counts."""

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        await w1.says()  # a bare word: it is back, and says nothing of its services
        await asyncio.sleep(20)
        assert w2.stands_in == (WEB,)
        w1.start()
        assert await until(loop, lambda: w2.stands_in == (), 11) <= 11

    scene(story, listed("w2"))


@pytest.mark.parametrize("reported", [True, False])
def test_a_restarted_hub_changes_nothing_while_it_warms_up_and_nothing_after(reported: bool) -> None:
    """Also if it dies before the node could say that it stands in."""

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, w3 = nodes
        w3.die()  # the first choice is away at first, so that another choice would be seen
        await asyncio.sleep(200)
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        if reported:
            w2.runs("web", standby=True)
        w3.start()
        await asyncio.sleep(100)
        w2.die()
        w3.die()
        again = rig.restarted()
        for node in nodes:
            node.rig = again
        hub = asyncio.create_task(again.desk.run())
        w2.start()
        w3.start()
        await asyncio.sleep(5)
        assert w2.told[-1][1] is None or again.desk.nodes().ready
        await asyncio.sleep(400)
        assert again.desk.nodes().ready
        assert w2.changes() == [(), (WEB,)] and w3.changes() == [()], "the same one, without a gap"
        w1.start()
        await until(loop, lambda: w2.stands_in == (), 60)
        assert w3.changes() == [()]
        hub.cancel()

    scene(story, listed("w3", "w2"))


def test_a_hub_that_lost_its_memory_goes_on_with_what_it_finds() -> None:
    """Ledger rebuilt: no record of who stands in, and the home was never heard by this hub."""

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, w3 = nodes
        w3.die()
        await asyncio.sleep(200)
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        w2.runs("web", standby=True)
        await asyncio.sleep(60)
        for key in [record.key for record in rig.store.scan("standby/")]:
            rig.store.commit(Transaction(expect={}, put={}, delete=[key]))
        w2.die()
        again = rig.restarted()
        for node in nodes:
            node.rig = again
        hub = asyncio.create_task(again.desk.run())
        w2.start()
        w3.start()
        await asyncio.sleep(400)
        assert w2.changes() == [(), (WEB,)] and w3.changes() == [()], "w3 is the first choice, but w2 runs it"
        hub.cancel()

    scene(story, listed("w3", "w2"))


def test_when_the_stand_in_dies_the_next_one_is_named_and_the_last_says_so() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, w3 = nodes
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        w2.die()
        await until(loop, lambda: w3.stands_in == (WEB,), WINDOW_S + 1)
        w2.start()  # its first word brings the answer that somebody else does it now
        await until(loop, lambda: w2.stands_in == (), 11)
        assert w3.stands_in == (WEB,)

    scene(story, listed("w2", "w3"))


def test_with_nobody_left_it_is_said_and_the_first_to_come_back_stands_in() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2 = nodes
        w2.die()
        await asyncio.sleep(200)
        w1.die()
        await asyncio.sleep(200)
        assert findings(rig)["no_standby"] == WEB and "failed_over" not in findings(rig)
        w2.start()
        await until(loop, lambda: w2.stands_in == (WEB,), 11)
        assert "no_standby" not in findings(rig)

    scene(story, listed("w2"), "w1", "w2")


@pytest.mark.parametrize("why", ["held", "inactive", "not listed"])
def test_what_is_stopped_on_purpose_or_lists_nobody_is_never_started_elsewhere(why: str) -> None:
    service = {
        "held": listed("w2"),
        "inactive": replace(listed("w2"), active=False),
        "not listed": listed(),
    }[why]

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        if why == "held":
            w1.runs("web", "held")
            await asyncio.sleep(30)
        w1.die()
        await asyncio.sleep(400)
        assert w2.changes() == [()]

    scene(story, service)


def test_a_revision_that_takes_the_list_away_ends_the_stand_in() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        rig.commit(fleet_of(listed()))
        await until(loop, lambda: w2.stands_in == (), 1)
        assert not rig.store.scan("standby/")

    scene(story, listed("w2"))


# ---- moving: the old node serves until the new one is proven


def test_a_moved_service_is_released_once_its_new_home_reports_it_and_not_before() -> None:
    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        rig.commit(fleet_of(small_service("web")))
        await asyncio.sleep(1)
        w1.runs("web")
        await asyncio.sleep(20)
        applied = rig.hub.applied()
        assert applied is not None
        old = w1.deployment("web")
        rig.hub.commit(signed(plan_drain("w1", applied, {})))
        rig.desk.committed()
        await asyncio.sleep(1)
        w2.runs("web", "settling")
        await asyncio.sleep(300)
        assert w1.released == [], "not proven"
        found = findings(rig)
        assert found["still_moving"] == WEB and "orphan" not in found
        w2.runs("web", "converged", deployment=old)
        await asyncio.sleep(60)
        assert w1.released == [], "what converged there is not what is applied"
        w2.runs("web", "failed")
        await asyncio.sleep(60)
        assert w1.released == [], "a failed move leaves the old one serving"
        w2.runs("web")
        await until(loop, lambda: bool(w1.released), 41)
        del w1.services["web"]
        await asyncio.sleep(41)
        assert [said for _, said in w1.released] == [(WEB,), ()] and "still_moving" not in findings(rig)

    scene(story, listed())


def test_a_home_that_falls_silent_proves_nothing() -> None:
    """Its last report said converged, but nobody hears it any more: the old node goes on."""

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        w1.die()
        rig.commit(fleet_of(replace(small_service("web"), node="w2")))
        await asyncio.sleep(1)
        w2.runs("web")
        await asyncio.sleep(60)
        w2.die()
        await asyncio.sleep(200)
        w1.start()  # was away through all of it, and still runs web
        await asyncio.sleep(60)
        assert w1.released == []
        w2.start()
        await until(loop, lambda: bool(w1.released), 11)
        assert w1.released[-1][1] == (WEB,)

    scene(story, listed())


def test_a_copy_is_released_when_its_service_is_removed_for_good() -> None:
    """The tombstone lies with the home; whoever stood in, or was away meanwhile, hears it from the hub."""

    async def story(loop: VirtualLoop, rig: Rig, nodes: list[Running]) -> None:
        w1, w2, _ = nodes
        w1.die()
        await until(loop, lambda: w2.stands_in == (WEB,), WINDOW_S + 1)
        w2.runs("web", standby=True)
        await asyncio.sleep(60)
        rig.commit(small_fleet({"blog": 1}, ("w1", "w2", "w3")))
        await until(loop, lambda: w2.stands_in == () and bool(w2.released), 1)
        assert w2.released[-1][1] == (WEB,)

    scene(story, listed("w2"))
