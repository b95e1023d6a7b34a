"""Promises of docs/guides/schedules.md, in virtual time: each test fails if one line of the feature is taken away."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.agent.schedules.attempts import LINE_CHARS, LINES
from holdfast.errors import TryLater, Unreachable
from holdfast.model.fleet import Node
from holdfast.model.schedule import Schedule
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, component, play, service
from tests.fleets.schedule_scene import JOB, Runs, at_five, behaves, hold, job, ordered, play_runs, state, with_job
from tests.scenarios.test_moving import Scene as MovingScene
from tests.scenarios.test_moving import scene as moving
from tests.scenarios.test_moving import web
from tests.scenarios.test_schedule_troubles import started, timed


def test_a_run_whose_container_was_removed_by_hand_is_lost_and_not_tried_again() -> None:
    async def story(one: Scene) -> None:
        (run,) = Runs(one).containers()
        one.machine.runtime.vanish(run.id)
        await asyncio.sleep(120)
        last = state(one).last
        assert last is not None and (last.outcome, last.attempts, last.exit_code) == ("lost", 1, None)
        assert len(Runs(one).started) == 1 and "its end is not known" in one.findings()["schedule_failed"]

    play_runs(story, with_job(job(retries=2)), after_s=5, exit_after_s=100.0)


def test_a_run_that_took_too_long_is_tried_again_and_its_time_goes_on_while_no_agent_runs() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        await asyncio.sleep(20)
        one.start()
        await asyncio.sleep(15)
        assert state(one).attempt == 2, "ended 60 s after its start, not after that of the agent"
        await asyncio.sleep(90)
        last = state(one).last
        assert last is not None and (last.outcome, last.attempts) == ("timed_out", 2)

    play_runs(story, with_job(job(timeout="60s", retries=1)), after_s=30, exit_after_s=None)


def test_a_runtime_that_is_away_at_the_timeout_is_asked_again() -> None:
    async def story(one: Scene) -> None:
        for _ in range(3):
            one.machine.runtime.cut("stop", "_run-", trouble=TryLater("away", remedy="", code="runtime_away"))
        await asyncio.sleep(30)
        last = state(one).last
        assert last is not None and last.outcome == "timed_out" and Runs(one).containers() == []

    play_runs(story, with_job(job(timeout="30s")), after_s=25, exit_after_s=None)


def test_a_run_of_a_service_that_is_stopped_meanwhile_ends_without_another_attempt() -> None:
    async def story(one: Scene) -> None:
        hold(one, True)
        await asyncio.sleep(18)
        last = state(one).last
        assert last is not None and (last.exit_code, last.attempts) == (4, 1) and not state(one).running_s

    play_runs(story, with_job(job(retries=3)), after_s=5, exit_code=4)


def test_what_waits_in_a_queue_does_not_begin_in_a_stopped_service() -> None:
    async def story(one: Scene) -> None:
        assert state(one).queued == 1
        hold(one, True)
        await asyncio.sleep(60)
        assert len(Runs(one).started) == 1 and not state(one).running_s and state(one).queued == 1
        await asyncio.sleep(300)
        assert state(one).queued == 0
        hold(one, False)
        await asyncio.sleep(60)
        assert len(Runs(one).started) == 1 and state(one).missed == 0

    play_runs(story, with_job(job(overlap="queue")), after_s=305, exit_after_s=320.0)


def test_only_the_last_lines_are_kept_and_only_their_beginning() -> None:
    async def story(one: Scene) -> None:
        last = state(one).last
        assert last is not None and [line.split()[0] for line in last.lines] == [f"{n}" for n in range(10, LINES + 10)]
        assert all(len(line) == LINE_CHARS for line in last.lines)

    play_runs(story, after_s=30, says=tuple(f"{n} " + "x" * 5000 for n in range(LINES + 10)))


def test_a_failed_run_is_a_finding_after_a_restart_and_until_its_schedule_is_removed() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        one.start()
        await asyncio.sleep(5)
        assert "schedule_failed" in one.findings()
        one.apply({"web": service()})
        await one.settled()
        await asyncio.sleep(30)
        assert "schedule_failed" not in one.findings()

    play_runs(story, after_s=30, exit_code=3)


def test_a_node_that_only_observes_runs_none() -> None:
    async def story(one: Scene) -> None:
        nodes = {"w1": Node("w1", ("worker",), reconcile="observe")}
        one.apply(replace(small_fleet(with_job()), nodes=nodes))
        await asyncio.sleep(900)
        assert Runs(one).started == [] and state(one).idle == "this node only observes" and state(one).missed == 0

    play_runs(story, with_job(job("1-59/7 * * * *")))


def test_a_run_is_of_its_own_component() -> None:
    async def story(one: Scene) -> None:
        (run,) = Runs(one).containers()
        (other,) = [each for each in one.ours() if each.component == "other"]
        assert run.image == other.image and one.machine.runtime.made(run.id).spec.component == "other"

    both = replace(service(), components=(component(1, "main"), component(2, "other")))
    play_runs(story, {"web": replace(both, schedule=(replace(job(), component="other"),))}, after_s=5)


def test_a_component_that_is_removed_while_its_run_is_under_way_lets_it_end() -> None:
    both = replace(service(), components=(component(1, "main"), component(2, "other")))

    async def story(one: Scene) -> None:
        one.apply({"web": service()})
        await one.settled(at_most_s=300)
        assert [c.verb for c in one.machine.runtime.calls if "_run-" in c.subject and c.verb == "stop"] == ["stop"]
        await asyncio.sleep(60)
        assert one.machine.journal.facts("schedules/") == {} and Runs(one).containers() == []
        assert "internal_error" not in one.findings()

    play_runs(
        story, {"web": replace(both, schedule=(replace(job(), component="other"),))}, after_s=5, exit_after_s=60.0
    )


def test_an_image_that_is_gone_is_pulled_and_one_that_cannot_be_is_a_failed_run() -> None:
    async def story(one: Scene) -> None:
        reference = one.one().image
        one.machine.runtime.here.clear()
        await asyncio.sleep(at_five(one) + 30)
        last = state(one).last
        assert last is not None and last.outcome == "done"
        one.machine.runtime.here.clear()
        one.machine.runtime.images[reference] = Image(trouble=TryLater("no registry", remedy="", code="away"))
        await asyncio.sleep(at_five(one) + 400)
        last = state(one).last
        assert last is not None and last.outcome == "failed" and "did not start: no registry" in last.message

    play_runs(story)


def test_a_runtime_that_is_away_for_a_moment_delays_a_run_and_does_not_fail_it() -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.away = True
        await asyncio.sleep(60)
        one.machine.runtime.away = False
        await asyncio.sleep(60)
        last = state(one).last
        assert last is not None and (last.outcome, last.attempts) == ("done", 1)

    play_runs(story, after_s=-1)


def test_another_command_and_another_name_leave_the_run_under_way_alone() -> None:
    async def story(one: Scene) -> None:
        behaves(one, exit_after_s=60.0)
        one.machine.runtime.behaviours[("other",)] = Behaviour(exit_after_s=5.0)
        await one.settled()
        await asyncio.sleep(at_five(one) + 5)
        one.apply(with_job(replace(job(), cmd=("other",)), replace(job("0 0 1 1 *"), name="renamed")))
        await one.settled()
        await asyncio.sleep(100)
        assert len(Runs(one).started) == 1, "the same minute does not run again with the new command"
        await asyncio.sleep(at_five(one) + 2)
        (run,) = Runs(one).containers()
        assert one.machine.runtime.made(run.id).spec.command == ("other",)

    play(with_job(), story)


def test_a_schedule_that_is_removed_and_added_again_does_not_repeat_its_minute() -> None:
    async def story(one: Scene) -> None:
        one.apply({"web": service()})
        await one.settled()
        await asyncio.sleep(10)
        one.apply(with_job())
        await one.settled()
        await asyncio.sleep(at_five(one) + 10)
        assert len(Runs(one).minutes) == len(set(Runs(one).minutes)) == 2

    play_runs(story, after_s=5, exit_after_s=2.0)


def test_two_orders_at_once_begin_one_run_and_a_queued_run_comes_after_it() -> None:
    async def story(one: Scene) -> None:
        assert (await ordered(one, 1))[0] == "done"
        assert await ordered(one, 2) == ("failed", "a run of nightly is under way")
        await asyncio.sleep(5)
        assert state(one).queued == 1
        await asyncio.sleep(60)
        assert len(Runs(one).started) == 2 and state(one).missed == 0

    play_runs(story, with_job(job(overlap="queue")), after_s=-6, exit_after_s=30.0)


@pytest.mark.parametrize("node", ["w3"])
def test_a_node_that_stands_in_for_a_silent_one_runs_no_schedules(node: str) -> None:
    async def story(made: MovingScene) -> None:
        for machine in made.machines.values():
            machine.runtime.behaviours[JOB] = Behaviour(exit_after_s=5.0)
        made.apply(replace(timed("w1"), failover=(node,)))
        await asyncio.sleep(130)
        ran = len(started(made, "w1"))
        assert ran
        await made.kill("w1")
        await made.runs_on(**{node: 1})
        await asyncio.sleep(300)
        assert started(made, node) == {} and len(started(made, "w1")) == ran

    moving(web(node="w1", failover=(node,)), story)


def test_a_cron_expression_for_a_leap_day_waits_for_it() -> None:
    async def story(one: Scene) -> None:
        await one.settled()
        await asyncio.sleep(20)
        assert state(one).next_s == 1_709_164_800.0  # 2024-02-29

    play({"web": replace(service(), schedule=(Schedule("leap", "main", "0 0 29 2 *", JOB),))}, story)


def test_a_clock_that_jumps_to_a_minute_of_tomorrow_is_noticed_soon() -> None:
    async def story(one: Scene) -> None:
        await asyncio.sleep(20)
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")  # a hub would tell the time
        one.machine.clock.skew_s += state(one).next_s + 5 - one.machine.clock.now_s()
        await asyncio.sleep(20)
        assert len(Runs(one).started) == 1 and state(one).missed == 0

    play_runs(story, with_job(job("0 12 * * *")))


def test_a_clock_that_is_set_back_does_not_delay_the_next_attempt_for_hours() -> None:
    async def story(one: Scene) -> None:
        one.machine.link.down = Unreachable("cut", remedy="", code="unreachable")
        await asyncio.sleep(at_five(one) + 21)
        assert state(one).attempt == 2
        await one.kill()
        one.machine.clock.skew_s -= 7200
        one.start()
        await asyncio.sleep(100)
        assert [name[-2:] for name in Runs(one).started] == ["-1", "-2"]

    play_runs(story, with_job(job(retries=1)), exit_code=1)


def test_a_container_that_was_created_and_not_noted_is_created_again() -> None:
    """It may be of the version before, and its secrets may be gone."""

    async def story(one: Scene) -> None:
        one.machine.runtime.cut("create", "_run-", "after")
        await asyncio.sleep(2)
        (before,) = Runs(one).containers()
        await asyncio.sleep(5)
        (after,) = Runs(one).containers()
        assert after.id != before.id and after.running and len(Runs(one).started) == 1

    play_runs(story, after_s=-1)


def test_a_run_that_ended_with_its_machine_is_lost_and_not_tried_again() -> None:
    """The exit code of a container that a boot has ended proves nothing."""

    async def story(one: Scene) -> None:
        await one.kill()
        one.machine.runtime.power_cut()
        one.machine.hardware.booted = "another boot"
        one.start()
        await asyncio.sleep(60)
        last = state(one).last
        assert last is not None and (last.outcome, last.exit_code) == ("lost", None)
        assert len(Runs(one).started) == 1 and "its end is not known" in one.findings()["schedule_failed"]

    play_runs(story, with_job(job(retries=2)), after_s=5, exit_after_s=100.0)
