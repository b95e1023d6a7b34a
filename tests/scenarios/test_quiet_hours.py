"""Quiet hours of alert targets (issue 14): held, sent at the end, dropped if over; hub and nodes, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.adapters.notifier.memory import MemoryNotifier
from holdfast.errors import TryLater
from holdfast.ledger import keys
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.fleet import AlertTarget
from holdfast.model.report import ContainerState, NodeFinding
from holdfast.status import quiet_hours
from tests.fleets.build import START_S, small_fleet
from tests.fleets.deploying import Scene
from tests.fleets.deploying import play as play_scene
from tests.fleets.desks import Rig
from tests.fleets.public import Beating
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_hub_silence import PHONE, URL, fleet, sealed

HOUR = 3600.0
# The clock begins at 22:13:20 UTC.
NIGHT = AlertTarget("night", webhook="https://a.test/", quiet="22:00-07:00")
ALWAYS = AlertTarget("always", webhook="https://b.test/")
UNTIL_S = 8 * HOUR + 46 * 60 + 40  # 07:00
DAY = AlertTarget("night", webhook="https://a.test/", quiet="08:00-09:00")


def test_the_clock_of_these_stories() -> None:
    assert datetime.fromtimestamp(START_S, UTC).strftime("%H:%M:%S") == "22:13:20"


class Life:
    def __init__(self, loop: VirtualLoop, targets: tuple[AlertTarget, ...]) -> None:
        self.loop = loop
        self.began_s = loop.time()
        self.targets = targets
        self.rig = Rig(loop, self._fleet(targets))
        self.nodes = [Beating(self.rig, name) for name in ("w1", "w2")]
        self._hub: asyncio.Task[None] | None = None

    def _fleet(self, targets: tuple[AlertTarget, ...]) -> Any:
        return replace(small_fleet(nodes=("w1", "w2")), alerts={one.name: one for one in targets})

    async def begin(self) -> None:
        self._hub = asyncio.create_task(self.rig.desk.run())
        for node in self.nodes:
            await node.join()
            node.start()
        await asyncio.sleep(30)

    async def restart(self) -> None:
        assert self._hub is not None
        self._hub.cancel()
        await asyncio.gather(self._hub, return_exceptions=True)
        self.rig = self.rig.restarted()
        for node in self.nodes:
            node.rig = self.rig
        self._hub = asyncio.create_task(self.rig.desk.run())
        await asyncio.sleep(120)

    def target(self, name: str) -> MemoryNotifier:
        return self.rig.notifiers.made[name]

    def sent(self, name: str = "night") -> list[str]:
        return [alert.code for alert in self.target(name).alerts]

    async def finds(self, *codes: str, node: int = 0) -> None:
        found = tuple(NodeFinding(code, "why", "holdfast status", address="service.web") for code in codes)
        self.nodes[node].report = {"runtime": "memory 1", "findings": found}
        await asyncio.sleep(90)

    async def at(self, hour: float) -> None:
        """So many hours after 22:13:20."""
        await asyncio.sleep(max(0.0, self.began_s + hour * HOUR - self.loop.time()))


def play(story: Callable[[Life], Awaitable[None]], *targets: AlertTarget) -> None:
    async def main(loop: VirtualLoop) -> None:
        life = Life(loop, targets)
        await life.begin()
        await story(life)

    run(main)


# ---- the hub


def test_what_is_raised_in_quiet_hours_is_sent_when_they_end() -> None:
    async def story(life: Life) -> None:
        await life.finds("dns_down")
        assert life.sent() == [] and life.sent("always") == ["dns_down"]
        await life.at(8.7)
        assert life.sent() == []
        await life.at(8.8)
        assert life.sent() == ["dns_down"] and life.target("night").alerts[0].at_s < START_S + HOUR
        await life.finds()
        assert life.sent() == life.sent("always") == ["dns_down", "dns_back"]
        assert life.rig.store.scan(keys.ALARMS) == []

    play(story, NIGHT, ALWAYS)


def test_what_began_and_ended_in_quiet_hours_is_not_sent() -> None:
    async def story(life: Life) -> None:
        for _ in range(2):
            await life.finds("dns_down")
            await life.finds()
        await life.at(9)
        assert life.sent() == [] and life.sent("always") == ["dns_down", "dns_back"] * 2
        assert life.rig.store.scan(keys.ALARMS) == []

    play(story, NIGHT, ALWAYS)


def test_a_trouble_of_another_node_is_not_taken_for_the_one_that_is_over() -> None:
    """Both alarms are about service.web."""

    async def story(life: Life) -> None:
        await life.finds("dns_down")
        await life.finds("dns_down", node=1)
        await life.finds()
        await life.at(9)
        assert [alert.message for alert in life.target("night").alerts] == ["w2: why"]

    play(story, NIGHT)


def test_a_recovery_waits_too_and_comes_before_what_was_raised_after_it() -> None:
    async def story(life: Life) -> None:
        await life.at(10)  # 08:13, not quiet
        await life.finds("dns_down", "proxy_down")
        await life.at(24)  # 22:13, quiet
        await life.finds("proxy_down")
        await life.finds("proxy_down", "dns_down")
        assert sorted(life.sent()) == ["dns_down", "proxy_down"]
        await life.at(33)
        assert life.sent()[2:] == ["dns_back", "dns_down"]

    play(story, NIGHT)


def test_what_is_excepted_is_sent_in_quiet_hours_with_its_recovery() -> None:
    async def story(life: Life) -> None:
        await life.finds("dns_down")
        life.nodes[1].die()
        await asyncio.sleep(150)
        assert life.sent() == ["node_silent"], "it is not behind what is held"
        life.nodes[1].start()
        await asyncio.sleep(30)
        assert life.sent() == ["node_silent", "node_back"]
        await life.at(9)
        assert life.sent() == ["node_silent", "node_back", "dns_down"]

    play(story, replace(NIGHT, quiet_except=("node_silent",)))


def test_a_restart_of_the_hub_in_quiet_hours_loses_nothing_and_repeats_nothing() -> None:
    async def story(life: Life) -> None:
        await life.finds("dns_down", "proxy_down")
        for _ in range(3):
            await life.restart()
        assert life.sent() == [] and sorted(life.sent("always")) == ["dns_down", "proxy_down"]
        assert sorted(life.rig.told.said) == [("dns_down", "service.web"), ("proxy_down", "service.web")]
        await life.finds("proxy_down")
        await life.restart()
        await life.at(9)
        assert life.sent() == ["proxy_down"], "dns_down was over"
        assert life.sent("always")[2:] == ["dns_back"] and len(life.rig.told.said) == 3
        assert life.rig.store.scan(keys.ALARMS) == []

    play(story, NIGHT, ALWAYS)


def test_after_a_restart_what_waited_is_sent_in_its_order() -> None:
    async def story(life: Life) -> None:
        codes = ("dns_down", "proxy_down", "certificate_failed", "handshake_failed", "dns_differs")
        for count in range(len(codes)):
            await life.finds(*codes[: count + 1])
        await life.restart()
        await life.at(9)
        assert life.sent() == list(codes)

    play(story, NIGHT)


def test_an_alarm_that_could_not_be_delivered_before_is_not_tried_in_quiet_hours() -> None:
    async def story(life: Life) -> None:
        away = TryLater("away", remedy="wait", code="alert_undelivered")
        await life.at(9.77)  # 07:59:30
        life.target("night").troubles = [away] * 1_000
        await life.finds("dns_down")
        await asyncio.sleep(300)
        left = len(life.target("night").troubles)
        await asyncio.sleep(1_800)
        assert len(life.target("night").troubles) == left
        life.target("night").troubles.clear()
        await life.at(10.8)
        assert life.sent() == ["dns_down"]

    play(story, replace(DAY, quiet="08:01-09:00"))


def test_quiet_hours_that_are_removed_release_what_waits_and_a_removed_target_forgets_it() -> None:
    async def story(life: Life) -> None:
        await life.finds("dns_down")
        assert life.sent() == []
        life.rig.commit(life._fleet((replace(NIGHT, quiet="08:00-09:00"), ALWAYS)))
        await asyncio.sleep(70)
        assert life.sent() == ["dns_down"]
        life.rig.commit(life._fleet((NIGHT, ALWAYS)))
        await life.finds("dns_down", "proxy_down")
        life.rig.commit(life._fleet((ALWAYS,)))
        await asyncio.sleep(1)
        assert life.rig.store.scan(keys.ALARMS) == [], "nothing waits for it"

    play(story, NIGHT, ALWAYS)


def test_a_failed_rollout_and_its_end_in_one_night_are_not_sent() -> None:
    async def story(life: Life) -> None:
        applied = life.rig.hub.applied()
        assert applied is not None
        deployment = deployment_of(applied.table.entries["service.web"])
        main = ContainerState("web", "main", "running", id="c1")
        for phase, serving in (("failed", "before"), ("converged", deployment)):
            state = ServiceState("web", phase, deployment, serving=serving)  # type: ignore[arg-type]
            life.nodes[0].report = {"runtime": "memory 1", "services": (state,), "containers": (main,)}
            await asyncio.sleep(60)
        assert [code for code, _ in life.rig.told.said] == ["rollout_failed", "rollout_recovered"]
        await life.at(9)
        assert life.sent() == []

    play(story, NIGHT)


# ---- time zones


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("zone", "hours", "now", "until"),
    [
        ("UTC", "22:00-07:00", "2026-01-10T21:59:59", None),
        ("UTC", "22:00-07:00", "2026-01-10T22:00:00", "2026-01-11T07:00:00"),
        ("UTC", "22:00-07:00", "2026-01-11T06:59:59", "2026-01-11T07:00:00"),
        ("UTC", "22:00-07:00", "2026-01-11T07:00:00", None),
        ("UTC", "12:00-13:00", "2026-01-11T12:30:00", "2026-01-11T13:00:00"),
        ("UTC", "12:00-13:00", "2026-01-11T13:30:00", None),
        ("Europe/Oslo", "22:00-07:00", "2026-01-10T21:30:00", "2026-01-11T06:00:00"),
        ("Europe/Oslo", "22:00-07:00", "2026-07-10T20:30:00", "2026-07-11T05:00:00"),
        ("Europe/Oslo", "22:00-07:00", "2026-03-28T23:00:00", "2026-03-29T05:00:00"),  # an hour is left out
        ("Europe/Oslo", "22:00-07:00", "2026-10-24T23:00:00", "2026-10-25T06:00:00"),  # an hour comes twice
        ("Europe/Oslo", "02:30-04:00", "2026-03-29T01:30:00", "2026-03-29T02:00:00"),  # 02:30 does not exist
        ("Europe/Oslo", "02:15-02:45", "2026-03-29T00:59:00", None),  # neither does exist: no quiet hours that day
        ("Europe/Oslo", "02:15-02:45", "2026-03-29T01:30:00", None),
        ("Europe/Oslo", "03:00-02:00", "2026-03-28T20:00:00", "2026-03-29T01:00:00"),  # its end is its next beginning
        ("Europe/Oslo", "03:00-02:00", "2026-03-29T01:00:00", "2026-03-30T00:00:00"),
        ("Europe/Oslo", "22:00-02:30", "2026-03-29T00:30:00", "2026-03-29T01:00:00"),  # 02:30 does not exist: at 03:00
        ("Europe/Oslo", "22:00-02:30", "2026-10-24T23:30:00", "2026-10-25T00:30:00"),  # the first 02:30
        ("Europe/Oslo", "22:00-02:30", "2026-10-25T01:15:00", None),  # before the second 02:30
        ("Europe/Oslo", "02:30-04:00", "2026-10-25T01:15:00", "2026-10-25T03:00:00"),  # since the first 02:30
        ("Australia/Lord_Howe", "01:45-06:00", "2026-04-04T15:10:00", "2026-04-04T19:30:00"),  # half an hour twice
        ("America/New_York", "02:30-03:30", "2027-03-14T07:15:00", "2027-03-14T07:30:00"),  # since 03:00
        ("America/New_York", "01:30-03:00", "2026-11-01T06:15:00", "2026-11-01T08:00:00"),  # since the first 01:30
        ("America/New_York", "22:00-07:00", "2026-01-11T03:00:00", "2026-01-11T12:00:00"),
    ],
)
def test_quiet_hours_follow_the_clock_of_their_time_zone(zone: str, hours: str, now: str, until: str | None) -> None:
    quiet = quiet_hours.of(AlertTarget("x", quiet=hours, timezone=zone))
    assert quiet is not None
    found = quiet_hours.until_s(quiet, CronCalendar(), utc(now))
    assert found == (utc(until) if until is not None else None)


def test_a_time_zone_that_is_not_known_here_keeps_no_alert_back() -> None:
    async def story(life: Life) -> None:
        await life.finds("dns_down")
        assert life.sent() == ["dns_down"]

    play(story, replace(NIGHT, timezone="Mars/Olympus"))


# ---- nodes


def silence(story: Callable[[Scene], Awaitable[None]], **quiet: Any) -> None:
    target = replace(PHONE, **quiet)
    play_scene(fleet(target, phone_url=sealed(URL, "alerts.phone")), story)


def told(scene: Scene) -> list[str]:
    found = scene.machine.notifiers.made.get("phone")
    return [alert.code for alert in found.alerts] if found is not None else []


def test_x17_a_node_holds_its_alarm_until_quiet_hours_end_and_drops_it_if_the_hub_is_back() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        gone = TryLater("gone", remedy="wait")
        scene.machine.link.down = gone
        await asyncio.sleep(3 * HOUR)
        scene.machine.link.down = None
        await asyncio.sleep(2 * HOUR)
        assert told(scene) == []
        scene.machine.link.down = gone
        await asyncio.sleep(HOUR)
        await scene.kill()
        scene.start()
        await asyncio.sleep(2 * HOUR)
        assert told(scene) == []
        await asyncio.sleep(HOUR)
        assert told(scene) == ["hub_silent"]
        await asyncio.sleep(15.5 * HOUR)  # 22:43
        scene.machine.link.down = None
        await asyncio.sleep(8 * HOUR)
        assert told(scene) == ["hub_silent"], "the recovery waits too"
        await asyncio.sleep(HOUR)
        assert told(scene) == ["hub_silent", "hub_heard"]

    silence(story, quiet="22:00-07:00")


def test_x17_a_node_that_does_not_know_the_time_zone_sends_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.link.down = TryLater("gone", remedy="wait")
        await asyncio.sleep(HOUR)
        assert told(scene) == ["hub_silent"]

    silence(story, quiet="22:00-07:00", timezone="Mars/Olympus")
