"""Runs of services with data, in virtual time: a run is one of the writers that the passport of the data admits."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.agent.services.data.passports import PREFIX
from holdfast.agent.services.data.volumes import Volumes
from holdfast.errors import Failed, TryLater
from holdfast.model.container import Guest
from holdfast.model.fleet import Hooks, Service
from holdfast.model.passport import Passport
from holdfast.ports.allowed import Allowed
from holdfast.ports.prober import Verdict
from holdfast.reconcile.schedule import LATE_S
from tests.fleets.build import digest_pinned
from tests.fleets.deploying import Scene, image
from tests.fleets.schedule_scene import DATA, Runs, at_five, job, play_data, refusing, state, with_data, with_job
from tests.scenarios.test_restored_checkpoints import ordered

OTHER = ("backup", "--more")
BAD = Verdict(False, "answered 500")
SLOW = TryLater("the disk is slow", remedy="wait", code="slow")


def other(version: int = 1) -> dict[str, Service]:
    return with_job(replace(job(), cmd=OTHER), volumes=DATA, version=version)


def counted_ticks(one: Scene) -> list[float]:
    assert one.agent is not None
    keeper: Any = next(each for each in one.agent.keepers.every if each.name == "schedules")
    tick, ticks = keeper._tick, list[float]()

    def counted() -> float | None:
        ticks.append(one.loop.time())
        found: float | None = tick()
        return found

    keeper._tick = counted
    return ticks


def test_a_new_command_waits_for_its_deployment_and_does_not_hold_it_up() -> None:
    """The version that serves with the new command is declared nowhere, and gets no data."""

    async def story(one: Scene) -> None:
        one.machine.runtime.behaviours[OTHER] = Behaviour(exit_after_s=5.0)
        one.machine.runtime.images[image(2)] = Image(pull_s=120.0)
        await asyncio.sleep(at_five(one) - 60)
        one.apply(other(2))
        await asyncio.sleep(70)
        assert Runs(one).containers() == [] and not state(one).running_s and "command" in state(one).idle
        ticks = counted_ticks(one)
        await asyncio.sleep(30)
        assert len(ticks) < 5 and state(one).next_s > one.machine.clock.now_s(), "it is not asked again and again"
        await one.settled(at_most_s=120)
        await asyncio.sleep(30)
        last = state(one).last
        assert last is not None and last.outcome == "done" and last.due_s % 300 == 0 and state(one).missed == 0
        assert len(Runs(one).started) == 1

    play_data(story)


def test_minutes_of_a_command_whose_deployment_failed_are_missed_and_said_to_be() -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.behaviours[OTHER] = Behaviour(exit_after_s=5.0)
        one.machine.prober.script(digest_pinned("web:2"), *[BAD] * 99)
        one.apply(other(2))
        await one.settled("failed")
        await asyncio.sleep(at_five(one) + 620)
        assert Runs(one).started == [] and "command" in state(one).idle
        one.machine.runtime.behaviours[OTHER] = Behaviour(exit_after_s=60.0)
        one.apply(other(3))
        await one.settled()
        await asyncio.sleep(20)
        assert state(one).missed == 2 and len(Runs(one).started) == 1, "the newest one is not late yet"

    play_data(story)


def test_runs_of_a_deployment_whose_agent_died_before_the_passports_were_written_begin() -> None:
    async def story(one: Scene) -> None:
        await die_at_the_switch(one, with_data(2))
        await one.settled()
        await asyncio.sleep(at_five(one) + 30)
        last = state(one).last
        assert last is not None and last.outcome == "done", last

    play_data(story)


async def die_at_the_switch(one: Scene, services: dict[str, Service]) -> None:
    proven, died = Volumes.proven, asyncio.Event()

    def dies(self: Volumes, guest: Guest, revision: int) -> None:
        died.set()
        raise asyncio.CancelledError

    Volumes.proven = dies  # type: ignore[method-assign]
    try:
        one.apply(services)
        await asyncio.wait_for(died.wait(), 60)
        await one.kill()
    finally:
        Volumes.proven = proven  # type: ignore[method-assign]
    one.start()


def test_a_hook_of_such_a_deployment_runs() -> None:
    async def story(one: Scene) -> None:
        await die_at_the_switch(one, with_data(2, hooks=Hooks(post_deploy=("index",))))
        await one.settled()
        ran = [call for call in one.machine.runtime.calls if call.verb == "run"]
        assert len(ran) == 1

    play_data(story)


def test_such_a_deployment_serves_again_when_the_next_one_fails() -> None:
    async def story(one: Scene) -> None:
        await die_at_the_switch(one, with_data(2))
        await one.settled()
        one.machine.prober.script(digest_pinned("web:3"), *[BAD] * 99)
        one.apply(with_data(3))
        await one.settled("failed")
        await asyncio.sleep(60)
        assert one.one().running and one.one().image == image(2)
        assert len(one.machine.storage.copies) <= 3 and "service_waits" not in one.findings()

    play_data(story)


@pytest.mark.parametrize("how", ["deploy", "restart"])
def test_a_run_that_owes_a_checkpoint_fails_at_once_and_lets_a_rollout_make_it(how: str) -> None:
    """Of adopted data no writer is known; what makes the checkpoint must be alone in the lane of the service."""

    async def story(one: Scene) -> None:
        await one.kill()
        one.machine.journal.set_aside(PREFIX + "web/db", msgspec.json.encode(Passport("web/db", "web", "order")))
        one.start()
        await asyncio.sleep(at_five(one) + 5)
        last = state(one).last
        assert last is not None and last.outcome == "failed" and "before a checkpoint is made" in last.message
        if how == "deploy":
            one.apply(with_data(2))
        else:  # as the remedy says
            assert (await ordered(one, "restart", "service.web")).outcome == "done"
        await one.settled()
        await asyncio.sleep(at_five(one) + 30)
        last = state(one).last
        assert last is not None and last.outcome == "done"

    play_data(story)


@pytest.mark.parametrize("how", ["the agent is killed", "the checkpoint fails"])
def test_no_run_begins_between_stop_and_start_also_if_the_rollout_is_interrupted(how: str) -> None:
    """The start would have to wait for it, up to its timeout."""

    async def story(one: Scene) -> None:
        with refusing(one.machine.storage, "checkpoint", SLOW) as asked:
            one.apply(with_data(2))
            while not asked:
                await asyncio.sleep(0.1)
            if how == "the agent is killed":
                await one.kill()
            await asyncio.sleep(at_five(one) + (0 if how == "the agent is killed" else 5))
        if how == "the agent is killed":
            one.start()
        await one.settled(at_most_s=200)
        await asyncio.sleep(10)
        begun = [call for call in one.machine.runtime.calls if call.verb == "start"]
        assert len(Runs(one).started) == 1 and "_run-" in begun[-1].subject and state(one).missed == 0

    play_data(story, after_s=-20, exit_after_s=1000.0)


def test_a_run_that_waited_too_long_for_an_interrupted_rollout_is_missed() -> None:
    """It does not begin however late, once the service is up again."""

    async def story(one: Scene) -> None:
        with refusing(one.machine.storage, "checkpoint", SLOW):
            one.apply(with_data(2))
            await asyncio.sleep(20 + 2 * LATE_S)
            assert Runs(one).started == [] and state(one).missed == 1
        await one.settled(at_most_s=200)

    play_data(story, after_s=-20)


def test_runs_of_such_a_deployment_go_on_when_the_next_one_fails_before_it_got_the_data() -> None:
    async def story(one: Scene) -> None:
        await die_at_the_switch(one, with_data(2))
        await one.settled()
        missing = Failed("no such image", remedy="push it", code="image_missing")
        one.machine.runtime.images[image(3)] = Image(trouble=missing)
        one.apply(with_data(3))
        await one.settled("failed")
        await asyncio.sleep(at_five(one) + 30)
        last = state(one).last
        assert last is not None and last.outcome == "done" and one.one().image == image(2), last

    play_data(story)


@pytest.mark.parametrize("serves_in_time", [True, False])
def test_a_minute_that_waited_while_its_command_changed_runs_in_time_or_is_missed(serves_in_time: bool) -> None:
    """It was decided with the command of before, and waits for an interrupted rollout."""

    async def story(one: Scene) -> None:
        one.machine.runtime.behaviours[OTHER] = Behaviour(exit_after_s=5.0)
        with refusing(one.machine.storage, "checkpoint", SLOW):
            one.apply(with_data(2))
            await asyncio.sleep(25)
            assert state(one).running_s, "it waits"
            if not serves_in_time:
                one.machine.prober.script(digest_pinned("web:3"), *[BAD] * 999)
            one.apply(other(3))
            await asyncio.sleep(10)
        await one.settled("converged" if serves_in_time else "failed", at_most_s=120)
        await asyncio.sleep(30 if serves_in_time else LATE_S)
        last = state(one).last
        if serves_in_time:
            assert last is not None and last.outcome == "done" and last.due_s % 300 == 0 and state(one).missed == 0
        else:
            assert last is None and state(one).missed == 1 and "schedule_missed" in one.findings()

    play_data(story, after_s=-20)


def test_a_run_under_way_is_waited_for_also_if_the_agent_finds_the_service_gone() -> None:
    """It looks like a rollout between stop and start; but this run has begun."""

    async def story(one: Scene) -> None:
        serving = one.one()
        await asyncio.sleep(at_five(one) + 5)
        one.apply(with_data(2))
        await asyncio.sleep(20)
        await one.kill()
        one.machine.runtime.vanish(serving.id)
        one.start()
        await one.settled(at_most_s=400)
        (begun_s,) = Runs(one).minutes
        last, copied_s = state(one).last, [copy.made_s for copy in one.machine.storage.checkpoints()]
        assert last is not None and last.outcome == "done" and min(copied_s) >= begun_s + 200

    play_data(story, exit_after_s=200.0)


def test_a_restore_after_a_run_does_not_meet_its_container() -> None:
    """It refuses to exchange data that a container mounts, and tells to remove that container."""

    async def story(one: Scene) -> None:
        one.apply(with_data(2))
        await one.settled()
        (made,) = one.machine.storage.checkpoints()
        remove = one.machine.runtime.remove

        async def slow(id: str, allowed: Allowed) -> None:
            await asyncio.sleep(5)
            await remove(id, allowed)

        one.machine.runtime.remove = slow  # type: ignore[method-assign]
        await asyncio.sleep(at_five(one) + 5)
        assert Runs(one).containers()
        result = await ordered(one, "restore-checkpoint", "data.web", checkpoint=made.id, then="start")
        assert result.outcome == "done", result

    play_data(story)
