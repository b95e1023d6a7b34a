"""Drills that are cut off, over memory in virtual time: by the end of the agent at any step, by changes of the service,
by podman that goes on alone, by targets and disks."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.agent.drills.keeper import AGAIN_S
from holdfast.errors import TryLater
from holdfast.model.drill import Drill, DrillResult
from holdfast.model.fleet import Fleet, Snapshot, Storage
from holdfast.ports.prober import Verdict
from holdfast.ports.runtime import CreateContainer, Finished
from holdfast.reconcile.drill import CUT_MAX, PAUSE_S
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, component, image, play
from tests.fleets.desks import OPERATOR
from tests.fleets.dying import Dying
from tests.fleets.schedule_scene import refusing
from tests.scenarios import test_backups as backups
from tests.scenarios.test_backups import HOUR_S, ordered, stored, target, write
from tests.scenarios.test_drills import (
    CMD,
    _last,
    calls,
    drilled,
    fleet,
    keeper_of,
    play_drills,
    prober,
    remains,
    scratch,
    tidied,
)

SNAPSHOT = Snapshot(method="exec: dump", restore="load", volume="book")
JOURNAL = ("set_aside", "drop_fact", "note_made", "forget_made")
RUNTIME = ("closed_network", "create", "start", "pipe", "exec", "stop", "remove", "remove_network")
SCRATCH = ("make", "volume", "clear")


def dumped(command: Sequence[str], read: bytes) -> tuple[Finished, bytes]:
    return Finished(0, ""), b"" if command[0] == "load" else b"the dump"


def of_dumps() -> Fleet:
    return fleet(drill=Drill(CMD, "2m"), snapshot=SNAPSHOT)


async def asked(one: Scene) -> str:
    """The id of a new order."""
    counter = one.machine.journal.highest_counter() + 1
    return await one.rig.desk.submit(OPERATOR, one.rig.order("w1", counter, "drill", 900, "service.web"))


async def result_of(one: Scene, order: str, at_most_s: float = HOUR_S) -> DrillResult:
    await until(one.rig, lambda: _last(one) is not None and _last(one).order == order, at_most_s)  # type: ignore[union-attr]
    found = _last(one)
    assert found is not None
    return found


# ---- the end of the agent


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_agent_killed_at_any_step_of_a_drill_leaves_nothing_and_the_drill_is_repeated(
    when: Literal["before", "after"],
) -> None:
    """Every write into the journal, every verb of the runtime and of the scratch, before and after its effect."""
    hit: list[str] = []

    async def story(one: Scene) -> None:
        runtime = one.machine.runtime

        def is_of_the_drill(first: Any) -> bool:
            kept = runtime._kept.get(first) if isinstance(first, str) else None
            name = kept.seen.name if kept is not None else first if isinstance(first, str) else ""
            name = name or getattr(first, "name", "") or f"drills/{getattr(first, 'id', '')}"
            return any(part in name for part in ("drills/", "_drill-"))

        for number in count(2):  # the first one notes the order
            before, dying = _last(one), Dying(number, when, is_of_the_drill)
            dying.watch(one.machine.journal, *JOURNAL)
            dying.watch(runtime, *RUNTIME)
            dying.watch(scratch(one), *SCRATCH)
            order = await asked(one)
            await until(one.rig, lambda: bool(dying.at) or _last(one) != before, 600.0)  # noqa: B023
            is_hit = bool(dying.at)
            if is_hit:
                assert dying.at == "set_aside" or _last(one) == before, "no verdict without an end"
                hit.append(dying.at)
                await one.kill()
            dying.revive()
            if not is_hit:
                break
            one.start()
            result = await result_of(one, order)
            assert (result.verdict, result.cause) == ("verified", "order"), (number, result)
            await tidied(one)
            assert {"drill_left", "drill_failed", "internal_error"} & one.findings().keys() == set(), one.findings()

    async def whole(one: Scene) -> None:
        one.machine.runtime.behaviours[component().image] = Behaviour(pipes=dumped)
        await one.settled()
        write(one, b"first")
        await backups.made(one, 1)
        await story(one)

    play(of_dumps(), whole)
    assert set(hit) == {*JOURNAL, *RUNTIME, *SCRATCH} and len(hit) >= 20, hit


def test_a_drill_that_ends_the_agent_each_time_is_repeated_after_a_pause() -> None:
    async def story(one: Scene) -> None:
        serving = one.one().image
        prober(one).script(serving, Verdict(False, "not yet"))
        order = await asked(one)
        for number in range(CUT_MAX + 1):
            await until(one.rig, lambda: len(calls(one, "start")) > number, 60.0)  # noqa: B023
            await one.kill()
            one.start()
        prober(one).script(serving, Verdict(True))
        await tidied(one)
        begun = len(calls(one, "start"))
        await asyncio.sleep(PAUSE_S - 60)
        assert len(calls(one, "start")) == begun and _last(one) is None
        assert (await result_of(one, order)).verdict == "verified"

    play_drills(story)


def test_a_journal_that_takes_nothing_has_no_drill_and_no_verdict() -> None:
    async def story(one: Scene) -> None:
        full = TryLater("the disk is full", remedy="free some space: df", code="no_space")
        order = await ordered(one, "drill")
        await until(one.rig, lambda: bool(calls(one, "start")))
        prober(one).script(one.one().image, Verdict(True))
        with refusing(one.machine.journal, "set_aside", full, lambda name, *_: name.startswith("drills/")):
            await asyncio.sleep(30)
            assert _last(one) is None and "internal_error" not in one.findings()
        assert (await result_of(one, order)).verdict == "verified"
        await tidied(one)

    async def whole(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        await story(one)

    play_drills(whole)


# ---- changes of the service


def test_a_service_that_is_undeployed_during_its_drill_leaves_nothing_of_it() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        await asked(one)
        await until(one.rig, lambda: bool(calls(one, "start")))
        one.apply(replace(fleet(), services={}))
        await asyncio.sleep(60)
        assert remains(one) == [] and _last(one) is None and not one.ours(), "no verdict of what gave way"
        assert {"drill_left", "drill_failed", "internal_error"} & one.findings().keys() == set(), one.findings()

    play_drills(story)


def test_a_service_that_is_undeployed_while_no_agent_runs_leaves_nothing_of_its_drill() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        await asked(one)
        await until(one.rig, lambda: bool(calls(one, "start")))
        await one.kill()
        assert remains(one)
        one.apply(replace(fleet(), services={}))
        one.start()
        await asyncio.sleep(60)
        assert remains(one) == [] and "drill_left" not in one.findings(), one.findings()

    play_drills(story)


@pytest.mark.parametrize("verb", ["create", "closed_network"])
def test_what_podman_makes_after_the_drill_gave_way_is_removed_too(verb: str) -> None:
    """Podman goes on with a call whose caller is gone."""

    async def story(one: Scene) -> None:
        runtime, asked_for = one.machine.runtime, list[str]()
        act = getattr(runtime, verb)

        async def slow(first: CreateContainer | str, more: Any) -> Any:
            name = first if isinstance(first, str) else first.name
            if "_drill-" not in name or asked_for:
                return await act(first, more)
            asked_for.append(name)

            async def later() -> Any:
                await asyncio.sleep(5)
                return await act(first, more)

            return await asyncio.shield(asyncio.ensure_future(later()))

        setattr(runtime, verb, slow)
        order = await asked(one)
        await until(one.rig, lambda: bool(asked_for))
        runtime.images[image(2)] = Image(pull_s=8.0)
        one.apply({"web": backups.web(2)})
        await one.settled()
        assert (await result_of(one, order)).verdict == "verified"
        assert len(calls(one, "closed_network")) == 2, "it gave way, and was repeated"
        await asyncio.sleep(30)
        assert remains(one) == [] and "drill_left" not in one.findings(), one.findings()

    play_drills(story)


def test_an_order_that_waits_is_not_replaced_by_a_second_one() -> None:
    """Its command waits for its verdict."""

    async def story(one: Scene) -> None:
        away = TryLater("podman is away", remedy="wait", code="runtime_away")
        with refusing(one.machine.runtime, "remove_network", away, lambda name, *_: "_drill-" in name):
            await drilled(one)
            await asyncio.sleep(2 * AGAIN_S)
            assert "drill_left" in one.findings(), "what is left of it holds the next one up"
            first = await ordered(one, "drill")
            second = await asked(one)
            await until(one.rig, lambda: one.machine.journal.result_of(second) is not None)
            found = one.machine.journal.result_of(second)
            assert found is not None and (found.outcome, found.code) == ("failed", "drill_waits")
        assert (await result_of(one, first)).verdict == "verified"
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        running = await ordered(one, "drill")
        await until(one.rig, lambda: keeper_of(one)._rounds.is_running("web", running))
        last = await ordered(one, "drill")  # while one runs, another may be asked for
        prober(one).script(one.one().image, Verdict(True))
        assert (await result_of(one, running)).verdict == "verified"
        assert (await result_of(one, last)).verdict == "verified"

    play_drills(story)


# ---- targets and disks


def test_a_target_that_is_behind_says_nothing_while_the_hub_is_away() -> None:
    """The hub has the newest backup; that another target lacks it is no loss."""
    nas = Storage("nas", "local-dir", "nas:/export", location="/mnt/nas")

    async def story(one: Scene) -> None:
        other, hub = one.machine.targets.made["nas"], one.machine.backups.target
        await until(one.rig, lambda: other.objects == target(one), HOUR_S)
        other.trouble = troubles.missing("nas", "it was unplugged")
        await asyncio.sleep(10)
        write(one, b"second")
        await ordered(one, "backup")
        await backups.made(one, 2)
        await asyncio.sleep(10)
        first, newest = stored(one)
        hub.trouble, other.trouble = troubles.missing("hub", "no answer"), None  # type: ignore[attr-defined]
        await asyncio.sleep(10)
        result = await drilled(one)
        assert (result.verdict, result.backup) == ("inconclusive", newest.digest), result
        result = await drilled(one, backup=newest.digest)
        assert result.verdict == "inconclusive", result
        assert (await drilled(one, backup=first.digest)).verdict == "verified", "the other target has that one"
        hub.trouble = None  # type: ignore[attr-defined]
        del target(one)[next(key for key in target(one) if newest.digest in key)]
        other.objects = {key: text for key, text in other.objects.items() if newest.digest not in key}
        result = await drilled(one)
        assert result.verdict == "failed" and "number 1" in result.reason, result

    play_drills(story, replace(fleet(), storage={"nas": nas}))


def test_a_service_without_room_to_write_says_nothing_about_its_backup() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "status 500"))
        order = await asked(one)
        await until(one.rig, lambda: bool(calls(one, "start")))
        scratch(one).room = 0
        result = await result_of(one, order)
        assert result.verdict == "inconclusive" and "had no room left: main is not healthy" in result.reason
        assert "drill_failed" not in one.findings()
        scratch(one).room = 1 << 40
        assert (await drilled(one)).verdict == "failed"

    play_drills(story)


def test_a_dump_needs_room_for_what_its_program_makes_of_it() -> None:
    async def story(one: Scene) -> None:
        (first,) = stored(one)
        size, margin = first.receipt.size_bytes, first.receipt.files * 4096 + (256 << 20)
        assert size > 0
        scratch(one).room = 3 * size + margin - 1
        result = await drilled(one)
        assert result.verdict == "inconclusive" and "bytes of disk" in result.reason, result
        scratch(one).room += 1
        assert (await drilled(one)).verdict == "verified"

    async def whole(one: Scene) -> None:
        one.machine.runtime.behaviours[component().image] = Behaviour(pipes=dumped)
        await one.settled()
        write(one, b"first")
        await backups.made(one, 1)
        await story(one)

    play(of_dumps(), whole)


def test_a_service_that_mounts_a_path_of_the_host_has_no_verdict_and_is_told_what_to_do() -> None:
    async def story(one: Scene) -> None:
        result = await drilled(one)
        assert (
            result.verdict == "inconclusive" and "web mounts /etc/hosts, which is not in its backups" in result.reason
        )
        assert "services/web.toml" in result.remedy and "holdfast restore web --backup ID --beside" in result.remedy
        assert "/etc/hosts" in one.findings()["drill_inconclusive"] and not calls(one, "create")

    mounted = backups.web()
    one = mounted.components[0]
    mounted = replace(mounted, components=(replace(one, volumes=(*one.volumes, "/etc/hosts:/app/hosts")),))
    play_drills(story, replace(fleet(), services={"web": mounted}))
