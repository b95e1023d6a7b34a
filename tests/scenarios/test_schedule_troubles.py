"""Schedules in virtual time where something goes wrong: stops, reboots, full disks, moves and many runs at once."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.agent.schedules.attempts import PARALLEL, Attempts
from holdfast.agent.schedules.declared import Declarations
from holdfast.agent.schedules.keeper import Schedules
from holdfast.agent.schedules.notes import Key, Notes
from holdfast.errors import Failed, TryLater
from holdfast.gate.containers import RUN
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, Container, ContainerSpec, Mount
from holdfast.model.schedule import Schedule, ScheduleState
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import CreateContainer
from holdfast.reconcile.schedule import LATE_S
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import OPERATOR
from tests.fleets.schedule_scene import (
    DATA,
    JOB,
    Runs,
    at_five,
    hold,
    job,
    ordered,
    play_runs,
    refusing,
    state,
    with_job,
)
from tests.scenarios.test_moving import Scene as MovingScene
from tests.scenarios.test_moving import scene as moving
from tests.scenarios.test_moving import web

FULL = Failed("the disk is full", remedy="free space", code="no_space")


def of_schedules(name: str, *value: bytes) -> bool:
    return name.startswith("schedules/")


# ---- a run that does not begin


def test_a_run_whose_service_is_stopped_before_its_next_attempt_has_failed() -> None:
    async def story(one: Scene) -> None:
        assert state(one).attempt == 2
        hold(one, True)
        await asyncio.sleep(60)
        last = state(one).last
        assert last is not None and (last.outcome, last.attempts) == ("failed", 1) and not state(one).running_s
        assert "attempt 2 did not begin: the service is stopped" in one.findings()["schedule_failed"]

    play_runs(story, with_job(job(retries=3)), after_s=21, exit_code=1)


@pytest.mark.parametrize(
    ("down_s", "held", "why"),
    [
        (10.0, True, "the service is stopped"),
        (LATE_S + 60, False, "no agent ran in time, or a rollout was interrupted"),
    ],
)
def test_a_run_by_order_that_does_not_begin_has_a_result(down_s: float, held: bool, why: str) -> None:
    """The command that ordered it waits for that result."""

    async def story(one: Scene) -> None:
        one.machine.runtime.away = True
        assert (await ordered(one, 1))[0] == "done"
        await one.kill()
        await asyncio.sleep(down_s)
        one.machine.runtime.away = False
        one.start()
        hold(one, held)
        await asyncio.sleep(30)
        last = state(one).last
        assert last is not None and last.order and (last.outcome, last.attempts) == ("failed", 0)
        assert last.message == f"did not begin: {why}"
        assert Runs(one).started == [] and state(one).missed == 0

    play_runs(story, with_job(job("0 0 1 1 *")))


@pytest.mark.parametrize("down_s", [30.0, LATE_S + 60])
def test_a_container_that_was_never_started_before_a_boot_is_made_again_in_time_or_missed(
    down_s: float,
) -> None:
    """Its secrets are gone after a boot, and so may its time be."""

    async def story(one: Scene) -> None:
        with refusing(one.machine.runtime, "start"):
            await asyncio.sleep(2)
            (before,) = Runs(one).containers()
            await one.kill()
        one.machine.hardware.booted = "another boot"
        await asyncio.sleep(down_s)
        one.start()
        await asyncio.sleep(40)
        assert before.id not in {each.id for each in Runs(one).containers()}
        last, minutes = state(one).last, Runs(one).minutes
        if down_s < LATE_S:
            assert last is not None and last.outcome == "done" and len(minutes) == 1
        else:
            assert minutes == [] and state(one).missed == 1 and "schedule_missed" in one.findings()

    play_runs(story, after_s=-1)


def test_a_run_that_is_late_is_missed_even_if_its_container_was_created() -> None:
    async def story(one: Scene) -> None:
        assert (await ordered(one, 1))[0] == "done"
        await asyncio.sleep(30)
        with refusing(one.machine.runtime, "start"):
            assert (await ordered(one, 2))[0] == "done"
            await one.kill()
        await asyncio.sleep(LATE_S + 60)
        one.start()
        await asyncio.sleep(30)
        last = state(one).last
        assert len(Runs(one).started) == 1 and Runs(one).containers() == []
        assert last is not None and last.message == "did not begin: no agent ran in time, or a rollout was interrupted"

    play_runs(story, with_job(job("0 0 1 1 *")))


def test_a_run_that_is_too_late_does_not_stand_in_the_way_of_the_next_minute() -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.away = True
        await asyncio.sleep(2)
        await one.kill()
        await asyncio.sleep(LATE_S + 60)
        one.machine.runtime.away = False
        one.start()
        await asyncio.sleep(10)
        assert (state(one).missed, state(one).skipped) == (1, 0)
        assert Runs(one).minutes == [int(one.rig.clock.now_s()) // 300 * 300]

    play_runs(story, after_s=-1)


# ---- a service that was stopped


@pytest.mark.parametrize("how", ["held", "inactive"])
def test_a_stopped_service_that_is_deployed_has_no_runs_until_it_is_up(how: str) -> None:
    async def story(one: Scene) -> None:
        if how == "held":
            await one.rig.desk.submit(OPERATOR, one.rig.order("w1", 1, "stop", target="service.web"))
        else:
            one.apply({"web": replace(with_job()["web"], active=False)})
        await asyncio.sleep(60)
        assert not any(each.running for each in one.ours())
        one.machine.runtime.images[image(2)] = Image(pull_s=700.0)
        one.apply(with_job(version=2))
        await asyncio.sleep(650)
        assert Runs(one).started == [] and state(one).idle == "the service does not serve yet"
        await one.settled(at_most_s=300)
        await asyncio.sleep(at_five(one) + 5)
        (run,) = Runs(one).containers()
        assert run.image == one.one().image and state(one).missed == 0

    play_runs(story)


# ---- secrets


class Files:
    """Secrets of containers, by name; each container has one."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def prepare(self, name: str, uses: object) -> tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]:
        self.kept.add(name)
        return (), ()

    def value(self, name: str, digest: str, fleet: str, address: str) -> bytes:
        raise AssertionError("no alert target")

    def forget(self, name: str) -> None:
        self.kept.discard(name)

    def forget_all_but(self, names: list[str]) -> None:
        self.kept &= set(names)


def test_a_run_that_begins_while_a_new_agent_looks_around_keeps_its_secrets() -> None:
    """The agent removes the files of containers that are gone: a run that is created meanwhile is in no list yet."""

    async def story(one: Scene) -> None:
        await one.kill()
        await asyncio.sleep(10)
        files, listed = Files(), one.machine.runtime.containers
        files.kept.add("gone")

        async def slow() -> Sequence[Container]:
            found = await listed()
            await asyncio.sleep(1.0)
            return found

        one.machine.secrets = files
        one.machine.runtime.containers = slow  # type: ignore[method-assign]
        one.start()
        await asyncio.sleep(10)
        (run,) = Runs(one).containers()
        assert run.name in files.kept and "gone" not in files.kept
        await asyncio.sleep(30)
        assert files.kept == set()

    play_runs(story, after_s=-5)


# ---- a disk that is full


def test_a_full_disk_is_not_asked_twenty_times_a_second() -> None:
    async def story(one: Scene) -> None:
        with refusing(one.machine.journal, "set_aside", FULL, of_schedules) as asked:
            await asyncio.sleep(65)
        assert 5 <= len(asked) <= 60

    play_runs(story, after_s=-5)


def test_a_removed_schedule_is_forgotten_when_the_disk_takes_it() -> None:
    async def story(one: Scene) -> None:
        with refusing(one.machine.journal, "drop_fact", FULL, of_schedules):
            one.apply({"web": service()})
            await one.settled()
            await asyncio.sleep(30)
            assert one.findings()["schedule_waits"] == "the disk is full" and "internal_error" not in one.findings()
        await asyncio.sleep(30)
        assert one.machine.journal.facts("schedules/") == {} and "schedule_waits" not in one.findings()

    play_runs(story)


def test_what_a_run_waits_for_stays_a_finding_until_it_goes_on() -> None:
    async def story(one: Scene) -> None:
        with refusing(one.machine.runtime, "remove", Failed("podman refuses", remedy="look", code="runtime")):
            await asyncio.sleep(at_five(one) + 30)
            for _ in range(120):
                assert "schedule_waits" in one.findings()
                await asyncio.sleep(0.5)
        await asyncio.sleep(30)
        assert "schedule_waits" not in one.findings() and Runs(one).containers() == []

    play_runs(story)


# ---- many at once


def many(count: int) -> tuple[Schedule, ...]:
    return tuple(replace(job(), name=f"job-{n}") for n in range(count))


def test_of_many_runs_in_one_minute_a_few_are_started_at_a_time_and_each_once() -> None:
    async def story(one: Scene) -> None:
        start, at_once, most = one.machine.runtime.start, 0, 0

        async def counted(id: str, allowed: Allowed) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await start(id, allowed)
            at_once -= 1

        one.machine.runtime.start = counted  # type: ignore[method-assign]
        await asyncio.sleep(at_five(one) + 200)
        started = Runs(one).started
        assert len(started) == len(set(started)) == 64 and most == PARALLEL

    play_runs(story, with_job(*many(64)), start_s=1.0, exit_after_s=100.0)


def test_a_long_run_is_watched_without_asking_the_runtime_again_and_again() -> None:
    async def story(one: Scene) -> None:
        asked = [c for c in one.machine.runtime.calls if c.verb == "container" and "_run-" in c.subject]
        last = state(one).last
        assert last is not None and 1000 <= last.duration_s <= 1002 and len(asked) < 20

    play_runs(story, after_s=1005, exit_after_s=1000.0)


def test_a_run_with_an_endless_timeout_can_be_waited_for() -> None:
    async def story(one: Scene) -> None:
        one.apply(with_job(job(timeout="9999999d"), volumes=DATA, version=2))
        await asyncio.sleep(20)
        assert "run_awaited" in one.findings() and "internal_error" not in one.findings()
        await one.settled(at_most_s=200)

    play_runs(story, with_job(job(timeout="9999999d"), volumes=DATA), after_s=5, exit_after_s=60.0)


# ---- a move


def timed(node: str) -> Any:
    component = web().components[0].name
    return replace(web(), node=node, schedule=(Schedule("tick", component, "* * * * *", JOB),))


def started(made: MovingScene, node: str) -> dict[int, float]:
    """The minutes that ran on a node, each with the time of its start."""
    calls = made.machines[node].runtime.calls
    mine = [call for call in calls if call.verb == "start" and "_run-" in call.subject]
    found = {int(call.subject.split("-")[-2], 16): call.at_s for call in mine}
    assert len(found) == len(mine), "each minute once"
    return found


def schedules_of(made: MovingScene, node: str) -> tuple[ScheduleState, ...]:
    keeper = next(one for one in made.agents[node].keepers.every if one.name == "schedules")
    states: tuple[ScheduleState, ...] = keeper.section().schedules  # type: ignore[attr-defined]
    return states


async def until(is_so: Callable[[], bool], at_most_s: float = 600.0) -> None:
    for _ in range(int(at_most_s * 10)):
        if is_so():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("not in time")


@pytest.mark.parametrize("lasts_s", [5.0, 90.0])
def test_a_moved_service_runs_its_minutes_on_one_node_and_then_on_the_other(lasts_s: float) -> None:
    """Also there and back again. A run that is under way when its service moves goes on to its end."""

    async def story(made: MovingScene) -> None:
        for machine in made.machines.values():
            machine.runtime.behaviours[JOB] = Behaviour(exit_after_s=lasts_s)
        made.apply(timed("w1"))
        await until(lambda: len(started(made, "w1")) == 2)
        await move(made, "w1", "w2")
        await move(made, "w2", "w1")
        await move(made, "w1", "w3")

    moving(web(node="w1"), story)


async def move(made: MovingScene, old: str, new: str) -> None:
    now_s, before = made.rig.clock.now_s, started(made, new)
    made.apply(timed(new))
    await until(lambda: made.agents[old].accepting.seen == made.rig.head)
    accepted_s, ran = now_s(), set(started(made, old))
    await until(lambda: any(not one.idle for one in schedules_of(made, new)))
    serves_s = now_s()
    await asyncio.sleep(60 * 6)
    assert all(at_s <= accepted_s for at_s in started(made, old).values()), "none begins on the old node"
    fresh = sorted(started(made, new).keys() - before.keys())
    assert fresh and fresh[0] > serves_s - 60 and not set(fresh) & ran, "no minute on both"
    assert all(one.missed == 0 for one in schedules_of(made, new)) and schedules_of(made, old) == ()
    assert made.machines[old].journal.facts("schedules/") == {}
    left = [one.seen.name for one in made.machines[old].runtime._kept.values()]
    assert left == [], "nothing is left on the old node"


# ---- a runtime that does not answer


def test_a_run_whose_container_could_not_be_started_for_long_is_missed_and_not_begun_late() -> None:
    async def story(one: Scene) -> None:
        with refusing(one.machine.runtime, "start"):
            await asyncio.sleep(2 * 3600 - 100)
            assert state(one).missed > 0 and "schedule_missed" in one.findings()
        await asyncio.sleep(150)
        (minute,) = Runs(one).minutes
        assert one.rig.clock.now_s() - minute < LATE_S

    play_runs(story, after_s=-1)


def test_a_run_that_ended_while_the_runtime_did_not_answer_has_its_own_duration() -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.away = True
        await asyncio.sleep(200)
        one.machine.runtime.away = False
        await asyncio.sleep(10)
        last = state(one).last
        assert last is not None and last.outcome == "done" and 19 <= last.duration_s <= 22

    play_runs(story, after_s=5)


# ---- an order that is resumed


@pytest.mark.parametrize(("action", "resumed"), [("restart", 0), ("stop", 1)])
def test_an_order_that_waits_for_a_run_does_not_take_the_end_of_the_agent_for_its_end(
    action: str, resumed: int
) -> None:
    """And an order that is resumed waits again."""

    async def story(one: Scene) -> None:
        begun_s = one.rig.clock.now_s() - 5
        await one.rig.desk.submit(OPERATOR, one.rig.order("w1", 1, action, target="service.web"))
        await asyncio.sleep(20)
        await one.kill()
        one.start()
        await asyncio.sleep(200)
        calls = one.machine.runtime.calls
        stopped_s = [call.at_s for call in calls if call.verb == "stop" and "_run-" not in call.subject]
        assert len(stopped_s) == resumed and all(at_s >= begun_s + 100 for at_s in stopped_s)

    play_runs(story, with_job(volumes=DATA), after_s=5, exit_after_s=100.0)


# ---- a lost journal


def lose_runs(one: Scene) -> None:
    """What the agent knew about schedules and their containers is gone."""
    journal = one.machine.journal
    for name in journal.facts("schedules/"):
        journal.drop_fact(name)
    for each in Runs(one).containers():
        journal.forget_made(RUN + each.name)


@pytest.mark.parametrize(("down_s", "outcome"), [(5.0, "done"), (60.0, "lost")])
def test_a_run_whose_journal_was_lost_is_taken_over_and_not_begun_again(down_s: float, outcome: str) -> None:
    """The end of one that ended meanwhile is not known: perhaps a boot has ended it."""

    async def story(one: Scene) -> None:
        await one.kill()
        lose_runs(one)
        await asyncio.sleep(down_s)
        one.start()
        await asyncio.sleep(90)
        last = state(one).last
        assert last is not None and last.outcome == outcome and last.due_s % 300 == 0, last
        assert len(Runs(one).started) == 1 and Runs(one).containers() == [] and "run_unknown" not in one.findings()

    play_runs(story, after_s=5, exit_after_s=50.0)


@pytest.mark.parametrize("how", ["another command is declared", "it is not declared"])
def test_a_run_of_a_lost_journal_that_no_schedule_would_run_now_is_reported_until_it_is_gone(how: str) -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        lose_runs(one)
        other = replace(job(), cmd=("backup", "--more"))
        one.apply(with_job(other) if how == "another command is declared" else {"web": service()})
        one.start()
        await one.settled()
        await asyncio.sleep(90)
        (run,) = Runs(one).containers()
        assert run.running and run.name in one.findings()["run_unknown"]
        one.machine.runtime.vanish(run.id)
        await asyncio.sleep(90)
        assert "run_unknown" not in one.findings()

    play_runs(story, after_s=5, exit_after_s=5000.0)


def test_of_several_runs_of_a_lost_journal_none_is_left_and_the_newest_result_stays() -> None:
    async def story(one: Scene) -> None:
        await one.kill()
        (newest,) = Runs(one).containers()
        (minute,) = Runs(one).minutes
        name = newest.name.replace(f"{minute:x}", f"{minute - 300:x}")
        one.machine.runtime.place(replace(newest, id="older", name=name, phase="exited", running=False))
        lose_runs(one)
        one.start()
        await asyncio.sleep(20)
        assert state(one).last is None and state(one).running_s, "the newest one first"
        await asyncio.sleep(100)
        last = state(one).last
        assert last is not None and last.due_s == minute and last.outcome == "done" and Runs(one).containers() == []

    play_runs(story, after_s=5, exit_after_s=50.0)


def test_a_run_of_a_lost_journal_is_taken_over_also_if_the_disk_refuses_in_between() -> None:
    """A container that the journal names and no book would be forgotten."""

    async def story(one: Scene) -> None:
        await one.kill()
        lose_runs(one)
        keep, refused = one.machine.journal.set_aside, list[str]()

        def refuse(name: str, value: bytes) -> None:
            if name.startswith("schedules/") and b'"run"' in value and not refused:
                refused.append(name)
                raise FULL
            keep(name, value)

        one.machine.journal.set_aside = refuse  # type: ignore[method-assign]
        one.start()
        await asyncio.sleep(90)
        assert refused and Runs(one).containers() == [] and state(one).last is not None

    play_runs(story, after_s=5)


def test_a_run_of_a_lost_journal_is_neither_reported_nor_taken_over_before_its_service_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal also had what serves: until that is found out, what a schedule would run is not known."""
    looked, known = Declarations.spec, list[bool]()

    def spec(self: Declarations, key: Key) -> ContainerSpec | None:
        return looked(self, key) if known else None

    async def story(one: Scene) -> None:
        await one.kill()
        lose_runs(one)
        monkeypatch.setattr(Declarations, "spec", spec)
        one.start()
        await asyncio.sleep(60)
        assert "run_unknown" not in one.findings() and not state(one).running_s
        known.append(True)
        await asyncio.sleep(150)
        last = state(one).last
        assert last is not None and last.outcome == "done" and "run_unknown" not in one.findings(), last

    play_runs(story, after_s=5, exit_after_s=150.0)


def test_while_a_content_cannot_be_read_no_run_is_reported_as_unknown() -> None:
    """It may be of a schedule that is declared there."""

    async def story(one: Scene) -> None:
        await one.kill()
        lose_runs(one)
        kept = one.machine.acceptance.blob

        def later(digest: str) -> bytes | None:
            content = kept(digest)
            return content.replace(b'"overlap"', b'"overtake"') if content is not None else None

        one.machine.acceptance.blob = later  # type: ignore[method-assign]
        one.start()
        await asyncio.sleep(90)
        assert "content_missing" in one.findings() and "run_unknown" not in one.findings()

    play_runs(story, with_job(job(overlap="queue")), after_s=5, exit_after_s=5000.0)


@pytest.mark.parametrize("how", ["another name", "another fleet"])
def test_a_container_with_the_labels_of_a_run_is_not_taken_over(how: str) -> None:
    """One that this agent would not have named so is reported; one of another fleet is not looked at."""

    async def story(one: Scene) -> None:
        await one.kill()
        (made,) = Runs(one).containers()
        lose_runs(one)
        one.machine.runtime.vanish(made.id)
        labels = {**made.labels, LABEL_FLEET: "0" * 64} if how == "another fleet" else made.labels
        name = made.name.removesuffix("-1") + "-01" if how == "another name" else made.name
        one.machine.runtime.place(replace(made, id="odd", name=name, labels=labels))
        one.start()
        await asyncio.sleep(60)
        assert not state(one).running_s and [each.id for each in Runs(one).containers()] == ["odd"]
        assert ("run_unknown" in one.findings()) == (how == "another name")

    play_runs(story, after_s=5, exit_after_s=5000.0)


def test_a_run_that_is_made_while_the_runtime_is_asked_is_not_unknown() -> None:
    """What was last seen has the container of that name which was removed before."""
    journal, asked = MemoryJournal(), list[str]()
    seen = SimpleNamespace(name="hf-a_run-b-1-1")

    async def container(name: str) -> Any:
        asked.append(name)
        journal.note_made(RUN + name, "schedule", False)
        return seen

    parts: Any = {"runtime": SimpleNamespace(container=container), "door": None, "clock": None}
    containers: Any = SimpleNamespace(labelled=lambda kind: (seen,))
    attempts = Attempts(**parts, containers=containers, journal=journal, fleet="")
    assert asyncio.run(attempts.unknown()) == [] and asked == [seen.name]


def test_a_node_without_schedules_looks_for_such_runs_when_something_changed_and_not_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, unknown = list[float](), Notes.unknown

    async def story(one: Scene) -> None:
        def tell(self: Notes, names: Collection[str]) -> None:
            looks.append(one.rig.clock.now_s())
            unknown(self, names)

        monkeypatch.setattr(Notes, "unknown", tell)
        await one.settled()
        await asyncio.sleep(60)
        looks.clear()
        await asyncio.sleep(3600)
        assert looks == []
        labels = {**one.one().labels, LABEL_INFRASTRUCTURE: "run"}
        ask, refused = one.machine.runtime.container, list[str]()

        async def refuse_once(id: str) -> Container | None:
            if id == "hf-odd" and not refused:
                refused.append(id)
                raise TryLater("cut", remedy="", code="runtime_away")
            return await ask(id)

        one.machine.runtime.container = refuse_once  # type: ignore[method-assign]
        one.machine.runtime.place(replace(one.one(), id="odd", name="hf-odd", labels=labels))
        await asyncio.sleep(90)
        assert refused and "hf-odd" in one.findings()["run_unknown"]
        one.machine.runtime.vanish("odd")
        await asyncio.sleep(90)
        assert "run_unknown" not in one.findings()

    play({"web": service()}, story)


@pytest.fixture
def mistaken(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The next tick of the keeper is a mistake; its loop runs again in the same process."""
    tick, pending = Schedules._tick, list[str]()

    def ticked(self: Schedules) -> float | None:
        if pending:
            raise RuntimeError(pending.pop())
        return tick(self)

    monkeypatch.setattr(Schedules, "_tick", ticked)
    return lambda: pending.append("a mistake")


def test_a_mistake_of_this_keeper_holds_no_lane_for_ever(mistaken: Callable[[], None]) -> None:
    """The run goes on, and what waits for its end goes on after it."""

    async def story(one: Scene) -> None:
        mistaken()
        await asyncio.sleep(30)
        assert "internal_error" in one.findings() and state(one).running_s
        one.apply(with_job(version=2, volumes=DATA))
        await one.settled(at_most_s=200)
        last = state(one).last
        assert last is not None and last.outcome == "done" and len(Runs(one).started) == 1

    play_runs(story, with_job(volumes=DATA), after_s=5, exit_after_s=60.0)


def test_a_run_that_is_being_made_is_not_missed_because_of_a_mistake_of_this_keeper(
    mistaken: Callable[[], None],
) -> None:
    async def story(one: Scene) -> None:
        create = one.machine.runtime.create

        async def slow(made: CreateContainer, allowed: Allowed) -> str:
            await asyncio.sleep(LATE_S + 60)
            return await create(made, allowed)

        await asyncio.sleep(at_five(one) - 1)
        one.machine.runtime.create = slow  # type: ignore[method-assign]
        await asyncio.sleep(LATE_S + 20)
        begun_s = state(one).running_s
        mistaken()
        await asyncio.sleep(25)
        assert "internal_error" in one.findings()
        assert begun_s and (state(one).running_s, state(one).missed) == (begun_s, 0)

    play_runs(story)
