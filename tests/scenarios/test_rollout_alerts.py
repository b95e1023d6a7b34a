"""A rollout that fails and a service that is not well: people are told once, and once more when it is over (I-30).

Hubs restart in between: what was told is neither forgotten nor repeated.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.hub.alerts import episodes, rollouts
from holdfast.ledger import keys
from holdfast.model.cadence import FAST, NORMAL, Cadence
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.report import ContainerState
from tests.fleets.build import small_fleet
from tests.fleets.desks import Puppet, Rig
from tests.fleets.virtual import VirtualLoop, run

NODES = ("w1", "w2")
FAILED = ("rollout_failed", "service.web")
RECOVERED = ("rollout_recovered", "service.web")
UNWELL = ("service_unhealthy", "service.web")
WELL = ("service_healthy", "service.web")


def deployment(rig: Rig, service: str = "web") -> str:
    applied = rig.hub.applied()
    assert applied is not None
    return deployment_of(applied.table.entries[f"service.{service}"])


def failed(rig: Rig, **more: Any) -> ServiceState:
    whole: dict[str, Any] = {
        "applied_revision": rig.head.number,
        "serving": "before",
        "serving_revision": 1,
        "step": "healthy main 0",
        "message": "not healthy after 8 s",
    }
    return ServiceState("web", "failed", deployment(rig), **(whole | more))


def converged(rig: Rig, **more: Any) -> ServiceState:
    return ServiceState("web", "converged", deployment(rig), serving=deployment(rig), **more)


def container(status: Any = "running", **more: Any) -> ContainerState:
    return ContainerState("web", "main", status, id=more.pop("id", "c1"), **more)


class Life:
    """A hub that runs, and a node that reports to it; the hub may be restarted."""

    def __init__(self, loop: VirtualLoop, pace: Cadence) -> None:
        self.loop, self.pace = loop, pace
        self.rig = Rig(loop, small_fleet(nodes=NODES), pace)
        self.w1 = Puppet(self.rig, "w1")
        self.running: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.w1.join()
        await self.w1.follows()
        await self.start()

    async def start(self) -> None:
        self.running = asyncio.create_task(self.rig.desk.run())
        await asyncio.sleep(0.1)

    async def stop(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def restart(self) -> None:
        """… while nobody says anything."""
        await self.stop()
        self.rig = self.w1.rig = self.rig.restarted(self.pace)
        await self.start()

    async def says(self, *services: ServiceState, containers: tuple[ContainerState, ...] = (), **more: Any) -> None:
        await self.w1.beat(self.w1.a_report(services=services, containers=containers, runtime="memory 1", **more))
        await asyncio.sleep(0.1)

    @property
    def said(self) -> list[tuple[str, str]]:
        """Of services; that a node is silent is another story."""
        return [(code, address) for code, address in self.rig.told.said if address.startswith("service.")]


def story(tell: Callable[[Life], Coroutine[Any, Any, None]], pace: Cadence = NORMAL) -> None:
    async def main(loop: VirtualLoop) -> None:
        life = Life(loop, pace)
        await life.begin()
        await tell(life)

    run(main)


# ---- rollouts


def test_a_failed_rollout_is_one_alarm_and_one_recovery_however_often_the_hub_restarts() -> None:
    async def tell(life: Life) -> None:
        await life.says(failed(life.rig))
        assert life.said == [FAILED]
        alert = life.rig.told.alerts[0]
        assert alert.level == "alarm" and alert.fleet == life.rig.fleet_id and alert.at_s > 0
        assert (
            "w1" in alert.message and "'healthy main 0'" in alert.message and "not healthy after 8 s" in alert.message
        )
        assert "revision 1 still serves" in alert.message and "holdfast rollback" in alert.remedy
        await life.says(failed(life.rig), address="100.64.0.9")  # another report, the same failure
        for _ in range(2):
            await life.restart()
        await life.says(failed(life.rig), address="100.64.0.1")
        assert life.said == [FAILED], "one alarm per failed deployment"
        await life.restart()
        await life.says(converged(life.rig))
        assert life.said == [FAILED, RECOVERED] and life.rig.told.alerts[1].level == "recovery"
        await life.restart()
        await life.says(converged(life.rig), address="x")
        assert life.said == [FAILED, RECOVERED]
        assert life.rig.store.scan(keys.TOLD) == []

    story(tell)


def test_what_was_heard_and_not_told_before_a_restart_is_told_after_it() -> None:
    async def tell(life: Life) -> None:
        await life.stop()
        life.rig = life.w1.rig = life.rig.restarted()  # takes the report, and dies before it tells anybody
        await life.says(failed(life.rig))
        assert life.said == []
        life.rig = life.w1.rig = life.rig.restarted()
        await life.start()
        assert life.said == [FAILED]

    story(tell)


def test_another_deployment_ends_the_alarm_of_the_one_before_at_once() -> None:
    async def tell(life: Life) -> None:
        await life.says(failed(life.rig))
        before = failed(life.rig)
        life.rig.commit(small_fleet({"web": 2}, NODES))
        await asyncio.sleep(0.1)
        assert life.said == [FAILED, RECOVERED]
        await life.says(before, address="x")  # has not heard of it yet
        assert life.said == [FAILED, RECOVERED]
        await life.says(failed(life.rig))
        assert life.said == [FAILED, RECOVERED, FAILED]
        life.rig.commit(small_fleet((), NODES))
        await asyncio.sleep(0.1)
        assert life.said == [FAILED, RECOVERED, FAILED, RECOVERED]

    story(tell)


def test_an_agent_that_has_just_started_takes_no_alarm_back() -> None:
    """Its first report may name no service yet; and a second try that is under way is not a success."""

    async def tell(life: Life) -> None:
        await life.says(failed(life.rig))
        await life.says()
        await life.says(ServiceState("web", "settling", deployment(life.rig)))
        await life.says(ServiceState("web", "held", deployment(life.rig)))
        await life.says(failed(life.rig))
        assert life.said == [FAILED]

    story(tell)


def test_a_node_speaks_only_for_what_is_placed_on_it() -> None:
    """I-12: w2 cannot raise an alarm for a service of w1."""

    async def tell(life: Life) -> None:
        (w2,) = await life.rig.joined("w2")
        await w2.follows()
        claim = failed(life.rig)
        await w2.beat(w2.a_report(services=(claim, ServiceState("ghost", "failed", "x")), runtime="memory 1"))
        await asyncio.sleep(0.1)
        assert life.said == []

    story(tell)


def test_words_of_a_node_are_cut_before_they_are_sent_to_people() -> None:
    async def tell(life: Life) -> None:
        await life.says(failed(life.rig, message="x" * 10_000, remedy="y" * 10_000, step="z" * 10_000))
        alert = life.rig.told.alerts[0]
        assert len(alert.message) < 1_000 and len(alert.remedy) <= 400

    story(tell)


@pytest.mark.parametrize("told", ["", "d1", "d2"])
@pytest.mark.parametrize("wanted", ["", "d1", "d2"])
@pytest.mark.parametrize("phase", [None, "settling", "converged", "failed", "held"])
@pytest.mark.parametrize("applied", ["d1", "d2"])
def test_every_alarm_has_its_recovery(told: str, wanted: str, phase: Any, applied: str) -> None:
    """The whole table: an alarm is only raised for what is wanted, and never twice; what is over is told as over."""
    state = ServiceState("web", phase, applied) if phase is not None else None
    step = rollouts.after(told, wanted, state)
    assert step.told in ("", wanted)
    assert ("alarm" in step.follows) == (phase == "failed" and applied == wanted != told)
    assert ("recover" in step.follows) == (
        told != "" and (told != wanted or (phase == "converged" and applied == told))
    )
    assert rollouts.after(step.told, wanted, state).follows == (), "said once"


# ---- services that are not well


@pytest.mark.parametrize(("pace", "limit_s"), [(NORMAL, 30.0), (FAST, 5.0)])
def test_a_service_that_stays_unhealthy_is_one_alarm_and_one_recovery(pace: Cadence, limit_s: float) -> None:
    async def tell(life: Life) -> None:
        bad, good = (container("unhealthy"),), (container(),)
        heart = asyncio.create_task(life.w1.lives(pace.poll_s, pace.heartbeat_s))
        await life.says(converged(life.rig), containers=bad)
        await asyncio.sleep(limit_s - 1)
        assert life.said == []
        await asyncio.sleep(1.5)
        assert life.said == [UNWELL]
        assert "main is unhealthy" in life.rig.told.alerts[0].message and "w1" in life.rig.told.alerts[0].message
        heart.cancel()
        await life.restart()
        heart = asyncio.create_task(life.w1.lives(pace.poll_s, pace.heartbeat_s))
        await life.says(converged(life.rig), containers=bad, address="x")
        await asyncio.sleep(limit_s * 3)
        assert life.said == [UNWELL], "not again, and not over"
        await life.says(converged(life.rig), containers=good)
        await asyncio.sleep(limit_s + 1)
        assert life.said == [UNWELL, WELL]
        heart.cancel()
        await life.restart()
        await asyncio.sleep(limit_s + 1)
        assert life.said == [UNWELL, WELL] and life.rig.store.scan(keys.TOLD) == []

    story(tell, pace)


def test_one_crash_that_heals_is_no_alarm_and_a_crash_loop_is_one() -> None:
    async def tell(life: Life) -> None:
        heart = asyncio.create_task(life.w1.lives())
        await life.says(converged(life.rig), containers=(container(started_s=1.0),))
        await life.says(converged(life.rig), containers=(container("stopped", started_s=1.0),))
        await asyncio.sleep(10)
        await life.says(converged(life.rig), containers=(container(started_s=2.0),))
        await asyncio.sleep(22)
        await life.says(
            converged(life.rig), containers=(container(started_s=2.0),), address="x"
        )  # 32 s after the crash
        await asyncio.sleep(100)
        assert life.said == []
        for at in range(3, 10):  # dies every six seconds, and is never seen dead
            await life.says(converged(life.rig), containers=(container(started_s=float(at)),))
            await asyncio.sleep(6)
        assert life.said == [UNWELL] and "restarts" in life.rig.told.alerts[0].message
        await asyncio.sleep(40)
        assert life.said == [UNWELL, WELL]
        heart.cancel()

    story(tell)


def test_a_rollout_under_way_a_hold_and_an_orphan_are_not_illness() -> None:
    async def tell(life: Life) -> None:
        heart = asyncio.create_task(life.w1.lives())
        one = deployment(life.rig)
        for state in (ServiceState("web", "settling", one), ServiceState("web", "held", one)):
            await life.says(state, containers=(container("unhealthy"),))
            await asyncio.sleep(60)
        await life.says(converged(life.rig), containers=(container(), container("stopped", id="c2", orphan=True)))
        await asyncio.sleep(60)
        await life.says(failed(life.rig, serving=""))  # nothing serves, and that is told already
        await asyncio.sleep(60)
        assert life.said == [FAILED]
        heart.cancel()

    story(tell)


def test_the_last_word_of_a_silent_node_is_no_alarm_of_a_service() -> None:
    async def tell(life: Life) -> None:
        await life.says(converged(life.rig), containers=(container("unhealthy"),))
        life.rig.registry.members["w1"].condition = replace(
            life.rig.registry.members["w1"].condition, status="unhealthy"
        )
        await asyncio.sleep(60)
        assert UNWELL not in life.said

    story(tell)


def test_a_sick_service_that_is_removed_needs_nobody_any_more() -> None:
    async def tell(life: Life) -> None:
        heart = asyncio.create_task(life.w1.lives())
        await life.says(converged(life.rig), containers=(container("stopped"),))
        await asyncio.sleep(31)
        assert life.said == [UNWELL]
        life.rig.commit(small_fleet((), NODES))
        await asyncio.sleep(0.1)
        assert life.said == [UNWELL, WELL]
        heart.cancel()

    story(tell)


def test_an_episode_ends_as_late_as_it_is_told() -> None:
    """A container that flaps faster than the limit is one trouble, with one alarm."""
    episode, told = episodes.Episode(), []
    good, bad = episodes.TroubleSign("", {}), episodes.TroubleSign("main is unhealthy", {})
    for second in range(0, 200, 10):
        episode = episodes.after(episode, bad if second % 20 == 0 else good, float(second))
        episode, follows, _ = episodes.due(episode, float(second), 30.0)
        told += [follows] if follows else []
    assert told == ["alarm"]


def test_what_served_and_is_healed_in_vain_is_told_too() -> None:
    async def tell(life: Life) -> None:
        heart = asyncio.create_task(life.w1.lives())
        one = deployment(life.rig)
        await life.says(converged(life.rig), containers=(container(),))
        healing = ServiceState("web", "settling", one, 1, one, 1)
        await life.says(healing, containers=(container("stopped"),))
        await asyncio.sleep(40)
        assert life.said == [UNWELL]
        heart.cancel()

    story(tell)
