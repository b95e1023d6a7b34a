"""Schedules on a node in virtual time: each minute once, hub or no hub, over crashes, clocks and rollouts."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace

from holdfast.errors import Failed, Unreachable
from holdfast.model.container import LABEL_INFRASTRUCTURE, Container
from holdfast.reconcile.schedule import LATE_S
from tests.fleets.deploying import Scene, play, service
from tests.fleets.schedule_scene import (
    DATA,
    JOB,
    Runs,
    at_five,
    behaves,
    hold,
    job,
    ordered,
    play_runs,
    refusing,
    state,
    with_job,
)


def test_a_run_has_the_image_the_volumes_and_a_container_of_its_own() -> None:
    async def story(one: Scene) -> None:
        serving = one.one()
        await asyncio.sleep(at_five(one) + 5)
        (run,) = Runs(one).containers()
        made = one.machine.runtime.made(run.id)
        assert made.spec.command == JOB and made.spec.mounts and made.spec.ports == () and not made.restart
        assert run.image == serving.image and run.labels[LABEL_INFRASTRUCTURE] == "run"
        assert one.ours() == [one.one()], "it is no container of the service"
        assert state(one).running_s and state(one).last is None
        await asyncio.sleep(60)
        assert Runs(one).containers() == [] and one.one().id == serving.id
        last = state(one).last
        assert last is not None and (last.exit_code, last.outcome, last.lines) == (0, "done", ("copied 3 files",))
        assert 19 <= last.duration_s <= 22 and last.due_s % 300 == 0
        assert state(one).next_s - last.due_s == 300

    play_runs(story, with_job(volumes=DATA))


def test_every_minute_runs_once_also_without_a_hub() -> None:
    async def story(one: Scene) -> None:
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")
        await asyncio.sleep(at_five(one) + 3600)
        minutes = Runs(one).minutes
        assert len(minutes) >= 12 and minutes == list(range(minutes[0], minutes[0] + 300 * len(minutes), 300))

    play_runs(story)


CUTS: list[tuple[str, Callable[[Scene], None]]] = [
    ("before create", lambda one: one.machine.runtime.cut("create", "_run-")),
    ("after create", lambda one: one.machine.runtime.cut("create", "_run-", "after")),
    ("before start", lambda one: one.machine.runtime.cut("start", "_run-")),
    ("after start", lambda one: one.machine.runtime.cut("start", "_run-", "after")),
]


@pytest.mark.parametrize("lasts_s", [0.5, 20.0])
@pytest.mark.parametrize("delay_s", [0.0, 0.01, 1.0, 19.0, 20.02, 30.0, 290.0])
@pytest.mark.parametrize(("where", "cut"), CUTS)
def test_an_agent_that_dies_around_a_run_never_runs_a_minute_twice_and_loses_none(
    where: str, cut: Callable[[Scene], None], delay_s: float, lasts_s: float
) -> None:
    async def story(one: Scene) -> None:
        cut(one)
        await asyncio.sleep(1.0 + delay_s)
        await one.kill()
        await asyncio.sleep(0.5)
        one.start()
        await asyncio.sleep(900)
        started, minutes = Runs(one).started, Runs(one).minutes
        spare = [started[0]] if where == "before start" else []  # this call had no effect
        assert sorted([*set(started), *spare]) == sorted(started), "no container is started twice"
        assert sorted(set(minutes)) == list(range(minutes[0], minutes[-1] + 1, 300)) and len(set(minutes)) >= 3
        last = state(one).last
        assert last is not None and last.outcome == "done" and state(one).missed == 0
        assert len(Runs(one).containers()) <= 1, "nothing is left of the others"

    play_runs(story, after_s=-1, exit_after_s=lasts_s)


def test_a_run_that_ended_while_no_agent_ran_is_collected_and_its_minute_is_not_run_again() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        await asyncio.sleep(100)
        one.start()
        await asyncio.sleep(10)
        last = state(one).last
        assert last is not None and (last.outcome, last.exit_code) == ("failed", 3)
        assert last.duration_s == 20.0, "until its end, not until an agent saw it"
        assert len(Runs(one).started) == 1
        assert "exit code 3; it wrote: copied 3 files" in one.findings()["schedule_failed"]
        behaves(one)
        await asyncio.sleep(at_five(one) + 60)
        assert "schedule_failed" not in one.findings()

    play_runs(story, after_s=5, exit_code=3)


def test_runs_that_no_agent_was_there_for_are_missed_and_said_to_be() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        await asyncio.sleep(1800 + LATE_S / 2)
        one.start()
        await asyncio.sleep(5)
        assert state(one).missed == 5 and "5 runs were missed" in one.findings()["schedule_missed"]
        assert len(Runs(one).started) == 2, "the newest one is not late yet"
        await asyncio.sleep(30)
        assert state(one).missed == 0 and "schedule_missed" not in one.findings()

    play_runs(story, after_s=60)


@pytest.mark.parametrize("jump_s", [-7200.0, -240.0, 240.0, 7200.0, 86_400.0])
def test_a_clock_that_jumps_repeats_no_minute_and_what_it_leaps_over_is_missed(jump_s: float) -> None:
    async def story(one: Scene) -> None:
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")  # a hub would tell the time
        await asyncio.sleep(at_five(one) + 60)
        one.machine.clock.skew_s += jump_s
        await asyncio.sleep(max(-jump_s, 0.0) + 1200)
        minutes = Runs(one).minutes
        assert len(minutes) == len(set(minutes)) and len(minutes) >= 4
        leapt = max(int(jump_s - LATE_S) // 300, 0)
        gaps = sum((b - a) // 300 - 1 for a, b in pairwise(minutes))
        assert gaps in (leapt, leapt + 1)

    play_runs(story)


def test_overlap_skip_leaves_the_next_run_out() -> None:
    async def story(one: Scene) -> None:
        assert len(Runs(one).started) == 1 and state(one).skipped == 2
        await asyncio.sleep(300)
        assert len(Runs(one).started) == 2 and state(one).skipped == 0

    play_runs(story, after_s=650, exit_after_s=700.0)


def test_overlap_queue_lets_it_wait() -> None:
    async def story(one: Scene) -> None:
        assert len(Runs(one).started) == 1 and state(one).queued == 1
        await one.kill()
        one.start()
        await asyncio.sleep(2400)
        minutes = Runs(one).minutes
        assert len(minutes) >= 6 and minutes == list(range(minutes[0], minutes[-1] + 1, 300))
        assert len(Runs(one).containers()) == 1, "one after the other"

    play_runs(story, with_job(job(overlap="queue")), after_s=350, exit_after_s=400.0)


def test_a_retry_is_another_attempt_of_the_same_run() -> None:
    async def story(one: Scene) -> None:
        assert state(one).attempt == 2 and state(one).last is None and "schedule_failed" not in one.findings()
        await asyncio.sleep(150)
        last = state(one).last
        assert last is not None and (last.outcome, last.attempts) == ("failed", 3)
        assert [name[-2:] for name in Runs(one).started] == ["-1", "-2", "-3"] and len(set(Runs(one).minutes)) == 1

    play_runs(story, with_job(job(retries=2)), after_s=25, exit_code=1)


def test_a_run_that_takes_too_long_is_ended() -> None:
    async def story(one: Scene) -> None:
        last = state(one).last
        assert last is not None and last.outcome == "timed_out" and 29 <= last.duration_s <= 33
        assert Runs(one).containers() == [] and "timeout of 30 s" in one.findings()["schedule_failed"]

    play_runs(story, with_job(job(timeout="30s")), after_s=45, exit_after_s=None)


def test_a_rollout_that_stops_the_service_waits_for_the_run_and_none_begins_meanwhile() -> None:
    async def story(one: Scene) -> None:
        one.apply(with_job(volumes=DATA, version=2))
        await asyncio.sleep(30)
        assert state(one).running_s and [c.image for c in one.ours() if c.running] == [one.ours()[0].image]
        assert "run_awaited" in one.findings()
        await one.settled(at_most_s=200)
        stops = [call.at_s for call in one.machine.runtime.calls if call.verb == "stop" and "_main-" in call.subject]
        last = state(one).last
        assert last is not None and last.outcome == "done" and stops[0] >= last.started_s + 99
        assert "run_awaited" not in one.findings()
        behaves(one)
        await asyncio.sleep(at_five(one) + 5)
        (run,) = Runs(one).containers()
        assert run.image == one.one().image, "the version that serves now"

    play_runs(story, with_job(volumes=DATA), after_s=5, exit_after_s=100.0)


def test_an_undeploy_waits_for_the_run_up_to_its_timeout() -> None:
    async def story(one: Scene) -> None:
        one.apply({"other": service()})
        await asyncio.sleep(60)
        assert Runs(one).containers() and any(c.service == "web" and c.running for c in one.ours())
        await asyncio.sleep(120)
        assert Runs(one).containers() == [] and not any(c.service == "web" for c in one.ours())
        await asyncio.sleep(600)
        assert len(Runs(one).started) == 1 and one.findings().keys().isdisjoint({"schedule_failed", "schedule_missed"})

    play_runs(story, with_job(job(timeout="2m")), after_s=5, exit_after_s=None)


def test_a_stopped_service_has_no_runs_and_misses_none() -> None:
    async def story(one: Scene) -> None:
        hold(one, True)
        await asyncio.sleep(1200)
        assert Runs(one).started == [] and state(one).idle == "the service is stopped" and state(one).missed == 0
        hold(one, False)
        await asyncio.sleep(at_five(one) + 60)
        assert len(Runs(one).started) == 1

    play_runs(story)


def test_other_minutes_begin_from_now_and_a_removed_schedule_is_forgotten() -> None:
    async def story(one: Scene) -> None:
        one.apply(with_job(job("0 0 1 1 *")))
        await one.settled()
        await asyncio.sleep(900)
        assert len(Runs(one).started) == 1 and state(one).missed == 0
        one.apply({"web": service()})
        await one.settled()
        await asyncio.sleep(60)
        assert one.machine.journal.facts("schedules/") == {}

    play_runs(story, after_s=60)


def test_a_disk_that_refuses_starts_nothing_and_loses_nothing() -> None:
    async def story(one: Scene) -> None:
        full = Failed("the disk is full", remedy="free space", code="no_space")
        with refusing(one.machine.journal, "set_aside", full, lambda name, value: name.startswith("schedules/")):
            await asyncio.sleep(60)
            assert Runs(one).started == [] and one.findings()["schedule_waits"] == "the disk is full"
        await asyncio.sleep(60)
        assert len(Runs(one).started) == 1 and "schedule_waits" not in one.findings()

    play_runs(story, after_s=-5)


def test_an_order_runs_it_now_once_and_not_beside_another_run() -> None:
    async def story(one: Scene) -> None:
        assert await ordered(one, 1) == ("done", "a run of nightly of service.web has begun")
        assert await ordered(one, 2) == ("failed", "a run of nightly is under way")
        assert await ordered(one, 3, "weekly") == ("failed", "web has no schedule 'weekly' on this node")
        await asyncio.sleep(30)
        last = state(one).last
        assert last is not None and last.order and last.outcome == "done" and len(Runs(one).started) == 1
        records = one.machine.built.services.records
        records.keep("web", replace(records.of("web"), held=True))
        assert await ordered(one, 4) == (
            "failed",
            "no run of nightly begins: the service is stopped",
        )

    play_runs(story, with_job(job("0 0 1 1 *")))


def test_the_result_of_an_order_is_reported_also_after_the_next_run() -> None:
    async def story(one: Scene) -> None:
        assert (await ordered(one, 1))[0] == "done"
        await asyncio.sleep(30)
        mine = state(one).last
        assert mine is not None and mine.order and state(one).ordered == ()
        await asyncio.sleep(300)
        last = state(one).last
        assert last is not None and not last.order and state(one).ordered == (mine,)

    play_runs(story, after_s=60)


def test_a_runtime_that_is_away_for_long_ends_no_run() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        one.machine.runtime.away = True
        one.start()
        await asyncio.sleep(2 * LATE_S)
        one.machine.runtime.away = False
        await asyncio.sleep(60)
        (run,) = Runs(one).containers()
        assert run.running and state(one).last is None
        await asyncio.sleep(400)
        last = state(one).last
        assert last is not None and last.outcome == "done" and 895 <= last.duration_s <= 910

    play_runs(story, after_s=5, exit_after_s=900.0)


def test_a_service_of_a_later_release_has_no_schedules_and_ends_no_agent() -> None:
    """Its content cannot be read; the keeper of the services reports that."""

    async def story(one: Scene) -> None:
        await one.settled()
        await one.kill()
        kept = one.machine.acceptance.blob

        def later(digest: str) -> bytes | None:
            content = kept(digest)
            return content.replace(b'"overlap"', b'"overtake"') if content is not None else None

        one.machine.acceptance.blob = later  # type: ignore[method-assign]
        one.start()
        await asyncio.sleep(30)
        assert "content_missing" in one.findings() and "internal_error" not in one.findings()
        assert one.tasks[-1].done() is False and one.one().running
        assert one.machine.journal.facts("schedules/"), "what was decided is not forgotten"

    play(with_job(job(overlap="queue")), story)


@pytest.mark.parametrize(
    ("begins", "cron", "ran"),
    [
        ("2024-03-30T23:50", "30 2 * * *", ["01:00"]),  # clocks go forward at 01:00 UTC: 02:30 does not exist
        ("2024-03-30T23:50", "30 * * * *", ["00:30", "01:30", "02:30", "03:30"]),
        ("2024-10-26T23:50", "30 2 * * *", ["00:30"]),  # clocks go back at 01:00 UTC: 02:30 comes twice
        ("2024-10-26T23:50", "30 * * * *", ["00:30", "01:30", "02:30", "03:30"]),
    ],
)
def test_where_clocks_change_no_run_comes_twice_and_none_is_lost(begins: str, cron: str, ran: list[str]) -> None:
    async def story(one: Scene) -> None:
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")  # a hub would tell the time
        begins_s = datetime.fromisoformat(begins).replace(tzinfo=UTC).timestamp()
        one.machine.clock.skew_s += begins_s - one.machine.clock.now_s()
        one.apply(with_job(job(cron, timezone="Europe/Oslo")))
        one.machine.link.down = None
        await one.settled(at_most_s=600)
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")
        for _ in range(4):
            await asyncio.sleep(3500)
            await one.kill()
            one.start()
        await asyncio.sleep(30)
        found = [datetime.fromtimestamp(minute, UTC).strftime("%H:%M") for minute in Runs(one).minutes]
        assert found == ran and state(one).missed == 0

    play_runs(story, {"web": service()})


@pytest.mark.parametrize(("noted_s", "outcome"), [(5.0, "done"), (1e9, "lost")])
def test_a_run_is_not_lost_before_the_runtime_had_time_to_note_its_end(noted_s: float, outcome: str) -> None:
    """Its process is gone, and podman still calls it running: its supervisor is slow, or dead."""

    async def story(one: Scene) -> None:
        looked, ended_s = one.machine.runtime.container, dict[str, float]()

        async def container(id: str) -> Container | None:
            found = await looked(id)
            if found is None or "_run-" not in found.name or found.phase != "exited":
                return found
            since_s = ended_s.setdefault(found.name, one.loop.time())
            return found if one.loop.time() - since_s > noted_s else replace(found, exit_code=-1)

        one.machine.runtime.container = container  # type: ignore[method-assign]
        await asyncio.sleep(at_five(one) + 60)
        last = state(one).last
        assert last is not None and last.outcome == outcome and len(Runs(one).started) == 1

    play_runs(story)
