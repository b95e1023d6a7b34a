"""The hub and public routes: moves without a gap, records that go last, what came true, who is told (I-19, I-30)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.ledger import keys
from holdfast.model import alert_codes
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.fleet import Service
from holdfast.model.report import NodeFinding
from holdfast.model.revision import Head
from tests.fleets.build import START_S
from tests.fleets.desks import Rig
from tests.fleets.public import HOST, Beating, carries, entry_of, joins_as_edge, public_fleet, public_service, runs
from tests.fleets.virtual import VirtualLoop, run

WEB = "service.web"
NAMES = ["web.holdfast.internal", "web.web.holdfast.internal"]


class Scene:
    """web runs on w1 and is public on e1; all three nodes speak every ten seconds."""

    def __init__(self, loop: VirtualLoop, service: Service, pace: Cadence) -> None:
        self.loop, self.pace = loop, pace
        self.rig = Rig(loop, public_fleet(web=service), pace)
        self.nodes = [Beating(self.rig, name) for name in ("w1", "w2", "e1")]
        self.w1, self.w2, self.e1 = self.nodes
        self.hub: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.w1.join()
        await self.w2.join()
        await joins_as_edge(self.e1)
        self.hub = asyncio.create_task(self.rig.desk.run())
        await self.w1.reports(**runs(self.rig))
        await self.e1.reports(edge=(carries(self.rig),), proxy="envoy 1.40")
        for node in self.nodes:
            node.start()
        await asyncio.sleep(1)

    async def restart(self) -> None:
        assert self.hub is not None
        self.hub.cancel()
        await asyncio.gather(self.hub, return_exceptions=True)
        self.rig = self.rig.restarted(self.pace)
        for node in self.nodes:
            node.rig = self.rig
        self.hub = asyncio.create_task(self.rig.desk.run())
        await asyncio.sleep(0.1)

    async def applies(self, service: Service | None) -> None:
        """And every node has heard of it."""
        services = {"web": service} if service is not None else {}
        self.rig.commit(public_fleet(**services) if services else public_fleet())
        await asyncio.sleep(2 * 10.0)

    def codes(self) -> list[str]:
        return [found.code for found in self.rig.desk.status_findings()]

    @property
    def said(self) -> list[str]:
        return [code for code, _ in self.rig.told.said]


def scene(
    story: Callable[[Scene], Coroutine[Any, Any, None]], service: Service | None = None, pace: Cadence = NORMAL
) -> None:
    async def main(loop: VirtualLoop) -> None:
        one = Scene(loop, service or public_service(node="w1"), pace)
        await one.begin()
        await story(one)
        assert one.hub is not None
        one.hub.cancel()
        for node in one.nodes:
            node.die()

    run(main)


# ---- moving


def test_a_moved_service_is_released_once_its_edges_lead_to_its_new_home() -> None:
    """M-02, decision 5: until the edge leads there the old node serves, so that nobody meets a gap."""

    async def story(one: Scene) -> None:
        before = carries(one.rig)
        await one.applies(public_service(node="w2"))
        await one.w2.reports(**runs(one.rig))
        await asyncio.sleep(50)
        assert one.w1.released == [], "it runs there, and the edge still leads to the old one"
        await one.e1.reports(edge=(replace(before, message="looks"),))
        await asyncio.sleep(20)
        assert one.w1.released == []
        await one.e1.reports(edge=(carries(one.rig, "waiting", step="backend"),))
        await asyncio.sleep(20)
        assert one.w1.released == [], "on its way is not there"
        await one.e1.reports(edge=(carries(one.rig),))
        await asyncio.sleep(11)
        assert one.w1.released == [WEB]

    scene(story)


def test_an_edge_that_is_silent_for_a_minute_is_not_waited_for() -> None:
    async def story(one: Scene) -> None:
        await one.applies(public_service(node="w2"))
        one.e1.die()
        began_s = one.loop.time()
        await one.w2.reports(**runs(one.rig))
        await asyncio.sleep(45)
        assert one.w1.released == []
        while not one.w1.released:
            await asyncio.sleep(1)
            assert one.loop.time() - began_s < 75
        assert one.loop.time() - began_s > 49

    scene(story)


def test_a_moved_service_whose_home_does_not_run_it_is_not_released_whatever_the_edge_says() -> None:
    async def story(one: Scene) -> None:
        await one.applies(public_service(node="w2"))
        await one.e1.reports(edge=(carries(one.rig),))
        await one.w2.reports(**runs(one.rig, phase="failed"))
        await asyncio.sleep(100)
        assert one.w1.released == []

    scene(story)


def test_whoever_stood_in_goes_on_until_the_edge_leads_home_again() -> None:
    async def story(one: Scene) -> None:
        one.w1.die()
        await asyncio.sleep(120)
        assert one.w2.stands_in == [WEB]
        away = carries(one.rig, node="w2")
        state = replace(runs(one.rig)["services"][0], standby=True)
        await one.w2.reports(services=(state,), containers=runs(one.rig)["containers"])
        await one.e1.reports(edge=(away,))
        one.w1.start()
        await asyncio.sleep(45)
        assert one.w2.stands_in == [WEB], "its home has it, and nobody is led there yet"
        await one.e1.reports(edge=(carries(one.rig),))
        await asyncio.sleep(11)
        assert one.w2.stands_in == []

    scene(story, public_service(node="w1", failover=("w2",)))


# ---- leaving


def test_names_are_withdrawn_after_the_backend_stopped_and_the_edge_let_go() -> None:
    """I-19, M-85: backend, then edge, then record; the hub only says that it came true."""

    async def story(one: Scene) -> None:
        leaving = carries(one.rig, "leaving")
        await one.applies(None)
        assert one.w2.withdrawn == []
        await one.e1.reports()
        await asyncio.sleep(20)
        assert one.w2.withdrawn == [], "the edge let go, and the backend still runs"
        await one.e1.reports(edge=(leaving,))
        await one.w1.reports()
        await asyncio.sleep(20)
        assert one.w2.withdrawn == [], "the backend is gone, and the edge still answers"
        await one.e1.reports()
        await asyncio.sleep(20)
        assert one.w2.withdrawn == [], "an agent that has just started does not know yet what its proxy has"
        await one.e1.reports(proxy="envoy 1.40", edge_unlisted=1)
        await asyncio.sleep(20)
        assert one.w2.withdrawn == [], "the edge may have it still: its report leaves routes out"
        await one.e1.reports(gone=(HOST,), proxy="envoy 1.40")
        await asyncio.sleep(11)
        assert one.w2.withdrawn == NAMES and one.e1.withdrawn == NAMES
        await asyncio.sleep(400)
        assert one.w2.withdrawn == [], "no record lingers so long"

    scene(story)


def test_a_name_that_is_applied_again_is_not_withdrawn() -> None:
    """C-20, D-06: whoever cleans up after the old one takes nothing from the new one."""

    async def story(one: Scene) -> None:
        await one.applies(None)
        await one.w1.reports()
        await one.e1.reports(proxy="envoy 1.40")
        await asyncio.sleep(11)
        assert one.w2.withdrawn == NAMES
        await one.applies(public_service(2, node="w2"))
        assert not set(NAMES) & set(one.w2.withdrawn)

    scene(story)


def test_nothing_is_withdrawn_on_the_old_word_of_a_silent_edge() -> None:
    async def story(one: Scene) -> None:
        await one.e1.reports()  # as after a restart, before it has looked
        one.e1.die()
        await one.applies(None)
        await one.w1.reports()
        await asyncio.sleep(80)
        assert one.w2.withdrawn == []

    scene(story)


# ---- what came true


def numbers(one: Scene) -> set[int]:
    heads = [Head(record.number, record.digest) for record in one.rig.hub.records(0, 100)]
    return set(one.rig.desk.converged(heads))


def test_a_revision_has_not_come_true_before_its_hostnames_are_live() -> None:
    """M-46: deployed and not public is not done; a silent edge takes nothing back."""

    async def story(one: Scene) -> None:
        assert numbers(one) == {1}
        await one.applies(public_service(node="w2"))
        await one.w2.reports(**runs(one.rig))
        await one.w1.reports()
        await one.e1.reports(edge=(carries(one.rig, "failed", step="certificate"),))
        assert numbers(one) == {1}
        await one.e1.reports(edge=(carries(one.rig),))
        assert numbers(one) == {1, 2}
        one.e1.die()
        await one.restart()
        await one.applies(public_service(2, node="w2"))
        await one.w2.reports(**runs(one.rig))
        assert numbers(one) == {1, 2, 3}, "the edge has nothing new to do"

    scene(story)


# ---- telling


def test_missing_edge_routes_are_findings_after_a_start_of_the_hub() -> None:
    """M-76 (4): each applied route is compared with what its edge says."""

    async def story(one: Scene) -> None:
        assert "edge_route_missing" not in one.codes()
        await one.e1.reports(proxy="envoy 1.40")
        await one.restart()
        assert "edge_route_missing" in one.codes()
        await one.e1.reports(edge=(carries(one.rig, "failed", step="certificate", message="refused"),))
        assert "edge_route_missing" not in one.codes() and "edge_route_failed" in one.codes()
        await one.e1.reports(edge=(carries(one.rig),))
        assert not [code for code in one.codes() if code.startswith("edge_")]

    scene(story)


def test_every_trouble_has_its_alarm_and_its_end() -> None:
    assert {code: over for over, code in alert_codes.RECOVERY_OF.items() if over in alert_codes.OVER.values()} == (
        alert_codes.OVER
    )
    assert "public_dns_differs" not in alert_codes.RECOVERY_OF, "a warning only (M-80)"


@pytest.mark.parametrize("code", sorted(alert_codes.OVER))
def test_a_trouble_with_traffic_is_one_alarm_and_one_recovery_however_often_the_hub_restarts(code: str) -> None:
    """M-88 and its like: told once, in the node's words with its remedy, and once more when it is over."""

    async def story(one: Scene) -> None:
        own = NodeFinding(code, f"{HOST} is in trouble", "do this", START_S, f"certificate.{HOST}")
        await one.e1.reports(edge=(carries(one.rig),), findings=(own,))
        await asyncio.sleep(20)
        assert one.said == [], "it may be over in a moment"
        await asyncio.sleep(20)
        assert one.said == [code]
        alert = one.rig.told.alerts[0]
        assert HOST in alert.message and alert.remedy == "do this" and alert.level == "alarm"
        await one.restart()
        await asyncio.sleep(60)
        assert one.said == [code]
        await one.e1.reports(edge=(carries(one.rig),))
        await asyncio.sleep(15)
        await one.e1.reports(edge=(carries(one.rig),), findings=(own,))  # it was not over
        await asyncio.sleep(60)
        assert one.said == [code]
        await one.e1.reports(edge=(carries(one.rig),))
        await asyncio.sleep(60)
        assert one.said == [code, alert_codes.OVER[code]] and one.rig.told.alerts[1].level == "recovery"
        await one.restart()
        await asyncio.sleep(60)
        assert one.said == [code, alert_codes.OVER[code]]
        assert one.rig.store.scan("told-finding/") == []

    scene(story)


def test_a_short_trouble_and_a_public_record_wake_nobody() -> None:
    """M-80: where public DNS leads is shown, and is no alarm."""

    async def story(one: Scene) -> None:
        short = NodeFinding("backend_unreachable", f"{HOST} is in trouble", "wait", START_S)
        elsewhere = NodeFinding("public_dns_differs", f"{HOST} leads elsewhere", "change it", START_S)
        await one.e1.reports(edge=(carries(one.rig),), findings=(short, elsewhere))
        await asyncio.sleep(10)
        await one.e1.reports(edge=(carries(one.rig),), findings=(elsewhere,))
        await asyncio.sleep(200)
        assert one.said == [] and "public_dns_differs" in one.codes()

    scene(story)


def test_notes_of_hostnames_lie_beside_those_of_services() -> None:
    async def story(one: Scene) -> None:
        stored = {record.key: record.value.decode() for record in one.rig.store.scan(keys.CONVERGED_SERVICES)}
        backend = entry_of(one.rig).public[HOST].backend
        assert stored[keys.converged_service(f"public/{HOST}")] == f"e1 w1 1 {backend}"

    scene(story)
