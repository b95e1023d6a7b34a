"""Silence is an alarm (I-30), unhealthy is not moved (I-31), busy is not dead (I-39); R07's times, in virtual time."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.errors import TryLater
from holdfast.hub.alerts.alarms import TRIED_S_MAX
from holdfast.model.cadence import FAST
from holdfast.model.fleet import Node
from holdfast.model.report import ContainerState, Parked
from tests.fleets.build import small_fleet
from tests.fleets.desks import Puppet, Rig, key_of
from tests.fleets.virtual import VirtualLoop, run


def status(rig: Rig, name: str) -> str:
    return next(view.status for view in rig.desk.nodes().nodes if view.name == name)


async def until(loop: VirtualLoop, true: Callable[[], bool], at_most_s: float) -> float:
    """How long it took, to a tenth of a second."""
    began_s = loop.time()
    while not true():
        assert loop.time() - began_s < at_most_s, "it did not happen"
        await asyncio.sleep(0.1)
    return loop.time() - began_s


async def alive(rig: Rig, *names: str) -> tuple[list[Puppet], dict[str, "asyncio.Task[None]"]]:
    puppets = await rig.joined(*names)
    return puppets, {p.name: asyncio.create_task(p.lives()) for p in puppets}


@pytest.mark.parametrize("phase_s", [0.0, 3.3, 7.7, 14.2, 21.9, 29.5])
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_a_silent_node_is_unhealthy_after_its_window_and_back_with_its_first_word(phase_s: float, how: str) -> None:
    """R07: unhealthy 90–110 s after the cut, whenever it comes, whether or not the hub sees the line break; alert
    ≤ 120 s; M-55, M-57, H-38."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1, _), tasks = await alive(rig, "w1", "w2")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(200 + phase_s)
        assert rig.told.said == [] and rig.desk.nodes().ready
        if how == "killed":
            tasks["w1"].cancel()
        w1.cut = True
        cut_s = loop.time()
        assert 90 <= await until(loop, lambda: status(rig, "w1") == "unhealthy", 200) <= 110
        await asyncio.sleep(0.1)
        assert rig.told.said == [("node_silent", "node.w1")] and rig.told.at_s[0] - cut_s <= 120
        assert status(rig, "w2") == "healthy"
        found = [f for f in rig.desk.status_findings() if f.code == "node_unhealthy"]
        assert [f.address for f in found] == ["node.w1"] and found[0].remedy
        await asyncio.sleep(600)
        assert len(rig.told.said) == 1, "one alert per silence"
        w1.cut = False
        again = asyncio.create_task(w1.lives())
        assert await until(loop, lambda: status(rig, "w1") == "healthy", 10) <= 1
        await asyncio.sleep(300)
        assert rig.told.said == [("node_silent", "node.w1"), ("node_back", "node.w1")]
        assert rig.told.alerts[1].level == "recovery"
        for task in (again, running, *tasks.values()):
            task.cancel()

    run(main)


def test_a_node_whose_clock_is_off_is_not_sent_to_its_network() -> None:
    """X23: its requests come and are refused; finding and alert name the clock, until it checks in again."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1, _), _ = await alive(rig, "w1", "w2")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(200)
        w1.cut = True
        while status(rig, "w1") != "unhealthy":
            rig.watched.refused_for_clock(w1.key.line, 3600.0)
            await asyncio.sleep(5)
        await asyncio.sleep(1)
        found = {f.code: f for f in rig.desk.status_findings() if f.address == "node.w1"}
        assert "3600 s ahead" in found["clock_skew"].message
        assert "its clock is off" in found["node_unhealthy"].message
        (alert,) = rig.told.alerts
        for text in (found["node_unhealthy"].remedy, alert.remedy):
            assert "timedatectl" in text and "network" not in text
        assert "3600 s ahead of the hub's" in alert.message
        w1.cut = False
        await w1.says(heartbeat=True, clock_s=rig.clock.now_s())
        assert status(rig, "w1") == "healthy"
        assert not [f for f in rig.desk.status_findings() if f.address == "node.w1"]
        running.cancel()

    run(main)


def test_marking_a_node_unhealthy_changes_nothing_but_its_status() -> None:
    """I-31, M-56, M-77: no revision, no order but the probe, no placement; only placement of new things avoids it."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        _, tasks = await alive(rig, "w1")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(60)
        tasks["w1"].cancel()
        head, blobs = rig.head, set(rig.store.blob_digests())
        await asyncio.sleep(300)
        assert status(rig, "w1") == "unhealthy"
        assert rig.desk.observations()["w1"].status == "unhealthy"
        assert rig.head == head and set(rig.store.blob_digests()) == blobs
        assert rig.desk.orders(None, 100).orders == ()
        running.cancel()

    run(main)


def test_a_busy_node_is_never_missed() -> None:
    """I-39, C-02: heartbeats without polls, for ten minutes."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        running = asyncio.create_task(rig.desk.run())
        for _ in range(20):
            await asyncio.sleep(30)
            await w1.beat()
            assert status(rig, "w1") == "healthy"
        assert rig.told.said == []
        running.cancel()

    run(main)


def test_the_probe_saves_a_node_that_answers_it() -> None:
    """C-01: for a node that polls the probe is a ping in its mailbox; its answer is a word like any other."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(91)
        answer = await w1.says(wait_s=10.0)
        assert [d.hub.action for d in answer.orders if d.hub] in ([], ["ping"])
        await asyncio.sleep(20)
        assert status(rig, "w1") == "healthy" and rig.told.said == []
        running.cancel()

    run(main)


def test_a_dial_node_is_called_and_stays_healthy_if_it_answers() -> None:
    """M-55 for link = "dial": the hub calls, five seconds; M-74: at once when the hub starts."""

    async def main(loop: VirtualLoop) -> None:
        called: list[tuple[float, str, str]] = []
        answers = {"w1": True}

        async def knock(node: str, address: str) -> bool:
            called.append((loop.time(), node, address))
            if not answers[node]:
                await asyncio.sleep(60)
            return True

        fleet = small_fleet(nodes=("w1",))
        rig = Rig(loop, replace(fleet, nodes={"w1": Node("w1", ("worker",), link="dial")}), knock=knock)
        w1 = Puppet(rig, "w1")
        await w1.join(address="100.64.0.1")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(100)
        assert called[0] == (0.0, "w1", "100.64.0.1")
        assert called[1][0] == pytest.approx(90.0) and status(rig, "w1") == "healthy"
        answers["w1"] = False
        assert 80 <= await until(loop, lambda: status(rig, "w1") == "unhealthy", 200) <= 96
        assert len(rig.told.said) == 1
        running.cancel()

    run(main)


def test_a_dial_node_that_cannot_be_called_yet_is_asked_through_its_mailbox() -> None:
    """C-01: no certificate of it is pinned before its identity is applied; the ping order is the probe then."""

    async def main(loop: VirtualLoop) -> None:
        async def knock(node: str, address: str) -> bool:
            return False

        fleet = small_fleet(nodes=("w1",))
        rig = Rig(loop, replace(fleet, nodes={"w1": Node("w1", ("worker",), link="dial")}), knock=knock)
        w1 = Puppet(rig, "w1")
        await w1.join(address="100.64.0.1")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(92)
        waiting = rig.registry.members["w1"].orders.values()
        assert [asked.hub.action for asked in waiting if asked.hub] == ["ping"]
        await w1.says()  # any word is an answer, and the question is withdrawn
        assert status(rig, "w1") == "healthy" and not waiting
        running.cancel()

    run(main)


def test_a_restarted_hub_raises_no_alarm_while_it_warms_up_and_repeats_none() -> None:
    """M-75, I-30: silent before and told of, silent before and not told of, silent since, alive — each told once."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet(nodes=("a", "b", "c", "d")))
        puppets, tasks = await alive(rig, "a", "b", "c")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(200)
        tasks["a"].cancel()
        await asyncio.sleep(150)
        assert rig.told.said == [("node_silent", "node.a")]
        tasks["b"].cancel()  # silent, and the hub dies before it noticed
        await asyncio.sleep(20)
        running.cancel()
        tasks["c"].cancel()
        await asyncio.sleep(600)  # ten minutes without a hub change nothing
        rig = rig.restarted()
        for puppet in puppets:
            puppet.rig = rig
        running = asyncio.create_task(rig.desk.run())
        living = asyncio.create_task(puppets[2].lives())
        await asyncio.sleep(80)
        assert rig.told.said == [("node_silent", "node.a")], "nothing while it warms up"
        assert not rig.desk.nodes().ready
        assert (status(rig, "a"), status(rig, "b"), status(rig, "c")) == ("unhealthy", "unknown", "healthy")
        await asyncio.sleep(60)
        assert rig.desk.nodes().ready
        assert rig.told.said == [("node_silent", "node.a"), ("node_silent", "node.b")]
        again = rig.restarted()
        for puppet in puppets:
            puppet.rig = again
        running.cancel()
        running = asyncio.create_task(again.desk.run())
        await asyncio.sleep(600)
        assert len(again.told.said) == 2, "no restart repeats an alarm"
        back = asyncio.create_task(puppets[0].lives())
        await asyncio.sleep(60)
        assert again.told.said[2:] == [("node_back", "node.a")], "a recovery across two restarts"
        for task in (running, living, back):
            task.cancel()

    run(main)


def test_a_herd_that_comes_back_with_the_hub_causes_no_alarm() -> None:
    """After ten minutes without a hub, agents return within their back-off of 60 s: nobody is told anything."""

    async def main(loop: VirtualLoop) -> None:
        names = tuple(f"n{number}" for number in range(20))
        rig = Rig(loop, small_fleet(nodes=names))
        puppets, tasks = await alive(rig, *names)
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(120)
        running.cancel()
        for task in tasks.values():
            task.cancel()
        await asyncio.sleep(600)
        rig = rig.restarted()
        running = asyncio.create_task(rig.desk.run())

        async def comes_back(puppet: Puppet, after_s: float) -> None:
            puppet.rig = rig
            await asyncio.sleep(after_s)
            await puppet.lives()

        living = [asyncio.create_task(comes_back(p, 3.0 * at)) for at, p in enumerate(puppets)]
        await asyncio.sleep(300)
        assert {status(rig, name) for name in names} == {"healthy"}
        assert rig.told.said == [] and rig.desk.nodes().ready
        for task in (running, *living):
            task.cancel()

    run(main)


def test_nodes_that_never_joined_are_shown_and_never_missed() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(400)
        assert rig.told.said == []
        declared = Node("k1", ("worker",), key=key_of("k1").line)  # an operator wrote its key down, it never came
        fleet = small_fleet(nodes=("w1", "n9"))
        rig.commit(replace(fleet, nodes={**fleet.nodes, "k1": declared}))
        await asyncio.sleep(400)
        assert rig.desk.nodes().ready and rig.told.said == []
        codes = {(f.code, f.address) for f in rig.desk.status_findings()}
        assert {("node_not_joined", "node.w1"), ("node_not_joined", "node.n9"), ("node_unknown", "node.k1")} <= codes
        running.cancel()

    run(main)


def test_an_alert_that_cannot_be_delivered_is_tried_again_shown_and_survives_the_hub() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        _, tasks = await alive(rig, "w1")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(60)
        trouble = TryLater("no way through", remedy="wait")
        rig.told.failures += [trouble] * 6
        tasks["w1"].cancel()
        await until(loop, lambda: status(rig, "w1") == "unhealthy", 200)
        await asyncio.sleep(10)
        found = [f for f in rig.desk.status_findings() if f.code == "alert_undelivered"]
        assert len(found) == 1 and "no way through" in found[0].message and found[0].age_s > 0
        running.cancel()
        await asyncio.sleep(1)
        rig.told.failures.clear()
        rig = rig.restarted()
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(5)
        assert rig.told.said == [("node_silent", "node.w1")], "the next hub process delivers it, warm-up or not"
        assert not [f for f in rig.desk.status_findings() if f.code == "alert_undelivered"]
        running.cancel()
        rig = rig.restarted()
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(5)
        assert len(rig.told.said) == 1, "delivered once"
        running.cancel()

    run(main)


def test_an_alert_is_given_up_after_an_hour_and_the_next_one_goes_out() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,), tasks = await alive(rig, "w1")
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(60)
        tasks["w1"].cancel()
        rig.told.failures += [TryLater("no", remedy="wait")] * 65  # 1, 2, 4 … 60, 60 s: so many fill the hour
        await until(loop, lambda: not rig.told.failures, TRIED_S_MAX + 300)
        living = asyncio.create_task(w1.lives())
        await asyncio.sleep(120)
        assert rig.told.said == [("node_back", "node.w1")]
        assert "1 were given up" in next(f.message for f in rig.desk.status_findings() if f.code == "alert_undelivered")
        running.cancel()
        living.cancel()

    run(main)


def test_in_a_fast_lab_silence_is_noticed_within_five_seconds() -> None:
    """contract.md: unhealthy ≤ 5 s."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, pace=FAST)
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(10)  # joins while the watch already sleeps
        (w1,) = await rig.joined("w1")
        task = asyncio.create_task(w1.lives(1.0, 1.0))
        await asyncio.sleep(20.4)
        task.cancel()
        assert await until(loop, lambda: status(rig, "w1") == "unhealthy", 10) <= 5.2
        running.cancel()

    run(main)


def test_the_start_up_report_names_what_is_stale_orphaned_and_parked_and_mends_nothing() -> None:
    """M-76, M-77."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet(("blog", "web"), nodes=("w1",)))
        (w1,) = await rig.joined("w1")
        await w1.follows()
        report = w1.a_report(
            containers=(ContainerState("web", "main", "running"), ContainerState("old", "main", "running")),
            parked=(Parked("service.db", "its data would be lost", "holdfast order sign …", rig.clock.now_s()),),
        )
        await w1.beat(report)
        found = {(f.code, f.address): f for f in rig.desk.status_findings()}
        assert set(found) == {
            ("placement_stale", "service.blog"),
            ("orphan", "service.old"),
            ("needs_operator", "service.db"),
        }
        assert all(f.remedy for f in found.values())
        assert rig.desk.orders(None, 10).orders == ()
        assert found["needs_operator", "service.db"].remedy == "holdfast order sign …"
        member = rig.registry.members["w1"]
        member.condition = replace(member.condition, status="unhealthy")
        codes = {one.code for one in rig.desk.status_findings()}
        assert "node_unhealthy" in codes and "placement_stale" not in codes, "N71: what runs there is not known"

    run(main)
