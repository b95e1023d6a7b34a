"""Each kind of alert: one alarm, one recovery, and no other one over restarts of the hub and gaps (I-30, M-59).

The table is docs/reference/alerts.md: a row without a story here fails.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.membership import enrol
from holdfast.errors import Failed, TryLater
from holdfast.model.alert_codes import OVER, RECOVERY_OF
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.report import ContainerState, NodeFinding
from holdfast.ports.ledger_store import Transaction
from tests.fleets.agents import Machine, token, until
from tests.fleets.build import START_S, small_fleet
from tests.fleets.deploying import Scene, play, service
from tests.fleets.desks import Puppet, Rig, key_of
from tests.fleets.public import Beating, joins_as_edge, public_fleet, public_service
from tests.fleets.virtual import VirtualLoop, run

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "reference" / "alerts.md").read_text()
LASTS_S = 30.0  # what must last before people are told
PLACE = "service.web"
# Told by nodes themselves: the hub has no part in it.
ELSEWHERE = {"hub_silent": ("scenarios/test_hub_silence.py", "test_x17_a_dead_hub_is_told_once_and_its_return_once")}


class Life:
    """A hub that may be restarted, and a node that beats as an agent does, with the report that the story gives it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.rig = Rig(loop, small_fleet(nodes=("w1",)))
        self.w1 = Puppet(self.rig, "w1")
        self.report: dict[str, Any] = {}
        self.is_silent = False
        self._hub: asyncio.Task[None] | None = None
        self._node: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.w1.join()
        await self.w1.follows()
        self._hub = asyncio.create_task(self.rig.desk.run())
        self._node = asyncio.create_task(self._beat())
        await asyncio.sleep(100)

    async def _beat(self) -> None:
        while True:
            if not self.is_silent:
                await self.w1.beat(self.w1.a_report(runtime="memory 1", **self.report))
            await asyncio.sleep(5)

    async def restart(self) -> None:
        assert self._hub is not None
        self._hub.cancel()
        await asyncio.gather(self._hub, return_exceptions=True)
        self.rig = self.w1.rig = self.rig.restarted()
        self._hub = asyncio.create_task(self.rig.desk.run())
        await asyncio.sleep(1)

    @property
    def deployment(self) -> str:
        applied = self.rig.hub.applied()
        assert applied is not None
        return deployment_of(applied.table.entries[PLACE])


Story = Callable[[Life, bool], Awaitable[None]]  # the trouble begins, or ends


def of_finding(code: str) -> Story:
    async def story(life: Life, is_bad: bool) -> None:
        found = (NodeFinding(code, f"why {code}", "holdfast status", address=PLACE),)
        life.report = {"findings": found if is_bad else ()}

    return story


async def silent(life: Life, is_bad: bool) -> None:
    life.is_silent = is_bad
    if is_bad:
        await asyncio.sleep(120)


async def rollout(life: Life, is_bad: bool) -> None:
    serving = "before" if is_bad else life.deployment
    state = ServiceState("web", "failed" if is_bad else "converged", life.deployment, serving=serving)
    life.report = {"services": (state,), "containers": (ContainerState("web", "main", "running", id="c1"),)}


async def unwell(life: Life, is_bad: bool) -> None:
    state = ServiceState("web", "converged", life.deployment, serving=life.deployment)
    main = ContainerState("web", "main", "unhealthy" if is_bad else "running", id="c1")
    life.report = {"services": (state,), "containers": (main,)}


STORIES: Mapping[str, Story] = {
    "node_silent": silent,
    "rollout_failed": rollout,
    "service_unhealthy": unwell,
    **{code: of_finding(code) for code in OVER},
}


def alarms_of_the_page() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \| alarm \|", PAGE.split("## Findings")[0], re.MULTILINE))


def test_each_alarm_of_the_page_has_a_story() -> None:
    assert alarms_of_the_page() == STORIES.keys() | ELSEWHERE.keys()
    for file, name in ELSEWHERE.values():
        assert f"def {name}(" in (TESTS / file).read_text()


@pytest.mark.parametrize("code", sorted(STORIES))
def test_one_alarm_and_one_recovery_whatever_restarts_in_between(code: str) -> None:
    recovery = next(after for after, before in RECOVERY_OF.items() if before == code)
    story = STORIES[code]

    async def main(loop: VirtualLoop) -> None:
        life = Life(loop)
        await life.begin()
        told = life.rig.told
        if code not in ("node_silent", "rollout_failed"):  # these do not have to last
            await story(life, True)
            await asyncio.sleep(LASTS_S / 2)
            await story(life, False)
            await asyncio.sleep(LASTS_S + 15)
            assert told.alerts == [], "a short trouble is neither told nor over"
        await story(life, True)
        await asyncio.sleep(LASTS_S + 15)
        assert [alert.code for alert in told.alerts] == [code]
        alarm = told.alerts[0]
        assert alarm.level == "alarm" and alarm.fleet == life.rig.fleet_id and alarm.message and alarm.remedy
        assert alarm.address == ("node.w1" if code == "node_silent" else PLACE) and "w1" in alarm.message
        for _ in range(2):
            await life.restart()
            await asyncio.sleep(200)
        if code not in ("node_silent", "rollout_failed"):  # a message of the node ends these at once
            await story(life, False)
            await asyncio.sleep(LASTS_S / 2)
            await story(life, True)
            await asyncio.sleep(200)
        assert len(told.alerts) == 1, "one alarm, over restarts and gaps"
        await story(life, False)
        await asyncio.sleep(LASTS_S + 15)
        assert [(alert.code, alert.level) for alert in told.alerts] == [(code, "alarm"), (recovery, "recovery")]
        assert told.alerts[1].address == alarm.address
        for _ in range(2):
            await life.restart()
            await asyncio.sleep(200)
        assert len(told.alerts) == 2, "one recovery"

    run(main)


def test_an_alarm_that_cannot_be_written_down_is_sent_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk of the hub is full: after a restart the alarm comes again, and the log says why."""

    async def main(loop: VirtualLoop) -> None:
        life = Life(loop)
        await life.begin()

        def full(tx: Transaction) -> Future[int]:
            failed: Future[int] = Future()
            failed.set_exception(Failed("no space is left for ledger.db", remedy="free space", code="no_space"))
            return failed

        monkeypatch.setattr(life.rig.store, "submit", full)
        await of_finding("crash_loop")(life, True)
        await asyncio.sleep(LASTS_S + 15)
        assert [alert.code for alert in life.rig.told.alerts] == ["crash_loop"]

    with caplog.at_level(logging.WARNING, "holdfast.fleet"):
        run(main)
    said = [record.getMessage() for record in caplog.records]
    assert "the alert crash_loop of w1 was not written down: no space is left for ledger.db" in said
    assert any(one.startswith("that an alert was delivered was not written down") for one in said)


def test_a_crash_loop_is_one_alarm_and_not_an_unhealthy_service_too() -> None:
    """N16: the same trouble is told once, by the alarm that says more."""

    async def main(loop: VirtualLoop) -> None:
        life = Life(loop)
        await life.begin()
        state = ServiceState("web", "converged", life.deployment, serving=life.deployment)
        found = NodeFinding("crash_loop", "main 0 of web keeps ending", "holdfast logs web", address=PLACE)
        for count in range(60):
            main = ContainerState("web", "main", "unhealthy", id="c1", state="restarting", started_s=float(count))
            life.report = {"services": (state,), "containers": (main,), "findings": (found,)}
            await asyncio.sleep(5)
        assert [alert.code for alert in life.rig.told.alerts] == ["crash_loop"]
        other = ContainerState("web", "db", "unhealthy", id="c2")
        life.report = {"services": (state,), "containers": (main, other), "findings": (found,)}
        await asyncio.sleep(LASTS_S + 15)
        assert [alert.code for alert in life.rig.told.alerts] == ["crash_loop", "service_unhealthy"]
        assert "db is unhealthy" in life.rig.told.alerts[1].message

    run(main)


def test_a_clock_that_is_off_is_one_alarm_and_one_recovery() -> None:
    """X23: a whole agent, whose own report says so; over a restart of it."""

    async def story(scene: Scene) -> None:
        def told() -> list[tuple[str, str]]:
            return [one for one in scene.rig.told.said if one[0].startswith("clock_")]

        await scene.settled()
        scene.machine.clock.skew_s = 45.0
        await until(scene.rig, lambda: told() == [("clock_skew", "node.w1")], 120)
        assert "clock" in scene.rig.told.alerts[-1].message
        await scene.kill()
        scene.start()
        await asyncio.sleep(300)
        assert told() == [("clock_skew", "node.w1")]
        scene.machine.clock.skew_s = 0.0
        await until(scene.rig, lambda: len(told()) == 2, 120)
        await asyncio.sleep(300)
        assert told() == [("clock_skew", "node.w1"), ("clock_right", "node.w1")]

    play({"web": service()}, story)


def test_a_silent_edge_is_one_alarm_that_names_the_hostnames() -> None:
    """Issue 14, edge broken: one cause, one alarm; `status` says the same."""

    async def main(loop: VirtualLoop) -> None:
        names = {f"s{number}": public_service() for number in range(7)}
        rig = Rig(loop, public_fleet(**names))
        e1, w1 = Beating(rig, "e1"), Beating(rig, "w1")
        await joins_as_edge(e1)
        await w1.join()
        running = asyncio.create_task(rig.desk.run())
        for node in (e1, w1):
            node.start()
        await asyncio.sleep(60)
        before = len(rig.told.alerts)
        e1.die()
        await asyncio.sleep(150)
        (alarm,) = rig.told.alerts[before:]
        named = "it is the edge of s0.example.test, s1.example.test, s2.example.test, s3.example.test, s4.example.test"
        assert alarm.code == "node_silent" and f"{named} and 2 more, which may be down" in alarm.message
        (found,) = [one for one in rig.desk.status_findings() if one.code == "node_unhealthy"]
        assert f"{named} and 2 more" in found.message
        w1.die()
        await asyncio.sleep(150)
        assert "it is the edge of" not in rig.told.alerts[-1].message
        running.cancel()

    run(main)


def test_the_proxy_of_an_edge_that_is_down_names_the_hostnames() -> None:
    """Issue 14, edge broken: the agent says so itself, and the hub sends it on."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, public_fleet(web=public_service()))
        machine = Machine(rig, "e1")
        machine.membership = enrol(token(rig, "e1", roles=("edge",)), key_of("once e1"), key_of("e1"), START_S, "")
        tasks = [asyncio.create_task(rig.desk.run()), asyncio.create_task(machine.start().run())]
        await asyncio.sleep(60)

        async def away(listening: object) -> None:
            raise TryLater("the proxy does not answer", remedy="look at it", code="proxy_down")

        machine.proxy.follow = away  # type: ignore[method-assign]
        await asyncio.sleep(60)
        (alarm,) = [alert for alert in rig.told.alerts if alert.code == "proxy_down"]
        assert "it is the edge of web.example.test, which may be down" in alarm.message
        for task in tasks:
            task.cancel()

    run(main)
