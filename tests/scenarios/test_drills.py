"""Drills of a node over memory, in virtual time: when they run, what they try, their verdicts, and what they leave."""

import asyncio
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.runtime.memory import Behaviour, Call, Directory, Image
from holdfast.adapters.storage.memory_scratch import MemoryScratch
from holdfast.agent.drills.remains import FACT
from holdfast.agent.keeper import OrderRun
from holdfast.errors import Failed, TryLater, Unreachable
from holdfast.gate.containers import RUN
from holdfast.model.cadence import FAST
from holdfast.model.container import LABEL_INFRASTRUCTURE
from holdfast.model.drill import Drill, DrillResult, DrillState
from holdfast.model.fleet import Component, Fleet, Route, Service, Storage, Volume
from holdfast.model.journal import Operation
from holdfast.ports.prober import Verdict
from holdfast.ports.runtime import CreateContainer, Finished
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, Story, component, image, play, service
from tests.fleets.desks import OPERATOR
from tests.scenarios import test_backups as backups
from tests.scenarios.test_backups import HOUR_S, archiver, ordered, stored, target, write

CMD = ("check-it", "--all")
STEPS = (
    ("closed_network", "_drill-"),
    ("image_directory", "_drill-"),
    ("create", "_drill-"),
    ("start", "_drill-"),
    ("container", "_drill-"),
    ("exec", "_drill-"),
    ("stop", "_drill-"),
    ("remove", "_drill-"),
    ("remove_network", "_drill-"),
)


def fleet(drill_interval: str = "7d", interval: str = "24h", **changed: Any) -> Fleet:
    made = backups.fleet(interval, **changed)
    return replace(made, backups=replace(made.backups, drill_interval=drill_interval))


def play_drills(story: Story, declared: Fleet | None = None) -> None:
    backups.play_backups(story, declared or fleet())


def keeper_of(one: Scene) -> Any:
    return next(keeper for keeper in one.machine.built.keepers.every if keeper.name == "drills")


def state(one: Scene) -> DrillState:
    (found,) = keeper_of(one).section().drills
    assert isinstance(found, DrillState)
    return found


def scratch(one: Scene) -> MemoryScratch:
    found = one.machine.drills.scratch
    assert isinstance(found, MemoryScratch)
    return found


def prober(one: Scene) -> MemoryProber:
    found = one.machine.drills.prober
    assert isinstance(found, MemoryProber)
    return found


def calls(one: Scene, verb: str) -> list[Call]:
    return [call for call in one.machine.runtime.calls if call.verb == verb and "_drill-" in call.subject]


async def drilled(one: Scene, **given: str) -> DrillResult:
    """By order; its result."""
    order = await ordered(one, "drill", **given)
    await until(one.rig, lambda: _last(one) is not None and _last(one).order == order, 4 * HOUR_S)  # type: ignore[union-attr]
    found = _last(one)
    assert found is not None
    return found


def _last(one: Scene) -> DrillResult | None:
    section = keeper_of(one).section().drills
    return section[0].last if section else None


async def tidied(one: Scene) -> None:
    await until(one.rig, lambda: not remains(one), HOUR_S)


def remains(one: Scene) -> list[str]:
    """Of drills: containers, networks, directories, and notes of the journal."""
    journal, runtime = one.machine.journal, one.machine.runtime
    names = [kept.seen.name for kept in runtime._kept.values() if kept.seen.labels.get(LABEL_INFRASTRUCTURE) == "drill"]
    made = {call.subject for verb in ("create", "image_directory") for call in calls(one, verb)}
    noted = [name for name in made if journal.made_by(RUN + name) is not None]
    staged = [FACT] if journal.fact(FACT) is not None else []
    networks = [name for name in runtime.networks if "_drill-" in name]
    return [*names, *noted, *staged, *networks, *scratch(one).contents]


def watched(one: Scene) -> list[CreateContainer]:
    """Every container of a drill, as it is created from now on."""
    found: list[CreateContainer] = []
    create = one.machine.runtime.create

    async def noted(made: CreateContainer, allowed: Any) -> str:
        if "_drill-" in made.name:
            found.append(made)
        return await create(made, allowed)

    one.machine.runtime.create = noted  # type: ignore[method-assign]
    return found


# ---- when


def test_a_backup_is_proven_at_drill_interval_also_without_a_hub_h60() -> None:
    async def story(one: Scene) -> None:
        one.machine.link.away = True
        await asyncio.sleep(2 * HOUR_S)
        first = state(one).last
        assert first is not None and (first.verdict, first.cause) == ("verified", "schedule")
        at = {first.at_s}
        for _ in range(9):
            await asyncio.sleep(2 * HOUR_S)
            last = state(one).last
            assert last is not None
            at.add(last.at_s)
        gaps = [after - before for before, after in zip(sorted(at), sorted(at)[1:], strict=False)]
        assert len(at) in (4, 5, 6) and all(round(gap / HOUR_S) == 4 for gap in gaps[1:]), gaps
        assert remains(one) == [] and "backup_not_proven" not in one.findings()

    play_drills(story, fleet("4h", "2h"))


def test_a_backup_is_proven_at_the_minutes_of_drill_cron() -> None:
    async def story(one: Scene) -> None:
        at = set()
        for _ in range(4):
            await asyncio.sleep(1.1 * HOUR_S)
            last = state(one).last
            assert last is not None and last.verdict == "verified"
            at.add(last.at_s)
        later = sorted(at)[1:]  # the first one follows the first backup
        assert len(later) == 3 and all(at_s % HOUR_S <= 310 for at_s in later), later

    made = fleet()
    play_drills(story, replace(made, backups=replace(made.backups, drill_cron="0 * * * *")))


def test_an_order_proves_the_newest_backup_now_and_its_evidence_is_reported() -> None:
    async def story(one: Scene) -> None:
        write(one, b"second")
        await ordered(one, "backup")
        await backups.made(one, 2)
        await asyncio.sleep(1)
        before = dict(one.machine.storage.contents["web"])
        result = await drilled(one)
        newest = stored(one)[-1]
        assert (result.verdict, result.backup, result.cause) == ("verified", newest.digest, "order")
        assert result.sequence == 2 and result.files == newest.receipt.files
        assert any("main is healthy: http 8080 /health" in check for check in result.checks), result.checks
        assert state(one).proven == newest.digest and state(one).proven_s == result.at_s
        await tidied(one)
        assert one.machine.storage.contents["web"] == before, "the data of the service is not touched"

    play_drills(story)


def test_a_copy_without_a_check_is_said_to_stay_up_for_the_time_that_was_waited_n49() -> None:
    """It said 3 s also where `lab fast` waits for one, and "1 files"."""

    async def story(one: Scene) -> None:
        result = await drilled(one)
        assert result.checks == ("restored with every digest right: 1 file, 0 B", "main stayed up for 3 s")
        one.rig.registry.cadence = FAST
        await asyncio.sleep(60)
        result = await drilled(one)
        assert result.checks[1:] == ("main stayed up for 1 s",)

    plain = component(1, volumes=backups.VOLUMES, routes=(), health=UNSET)
    play_drills(story, fleet(components=(plain,)))


def test_an_order_may_name_an_older_backup() -> None:
    async def story(one: Scene) -> None:
        first = stored(one)[0]
        write(one, b"second")
        await ordered(one, "backup")
        await backups.made(one, 2)
        result = await drilled(one, backup=first.digest)
        assert (result.verdict, result.backup, result.sequence) == ("verified", first.digest, 1)
        result = await drilled(one, backup="0" * 64)
        assert result.verdict == "failed" and "there is no backup 0000" in result.reason

    play_drills(story)


def test_a_hub_brings_a_drill_forward_and_displaces_no_order() -> None:
    """How often it may: tests/specs/trust/test_orders.py."""

    async def story(one: Scene) -> None:
        act = keeper_of(one).acts["drill"]
        asked = OrderRun(Operation("a1", "drill", "service.web", one.rig.clock.now_s()), None)
        assert await act.perform(asked) == "a drill of service.web begins"
        await until(one.rig, lambda: _last(one) is not None)
        last = _last(one)
        assert last is not None and (last.verdict, last.cause, last.order) == ("verified", "hub", "")
        prober(one).script(one.one().image, Verdict(False, "status 500"))
        order = await ordered(one, "drill")
        await act.perform(asked)
        await until(one.rig, lambda: _last(one) is not None and _last(one).order == order)  # type: ignore[union-attr]

    play_drills(story)


def test_a_service_without_a_backup_is_not_drilled_and_one_that_is_refused_says_so() -> None:
    async def story(one: Scene) -> None:
        await one.settled()
        await asyncio.sleep(2 * HOUR_S)
        assert keeper_of(one).section().drills == ()
        signed = one.rig.order("w1", one.machine.journal.highest_counter() + 1, "drill", 900, "service.web")
        id = await one.rig.desk.submit(OPERATOR, signed)
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None)
        found = one.machine.journal.result_of(id)
        assert found is not None and (found.outcome, found.code) == ("failed", "not_found")

    play({"web": service()}, story)


def test_not_proven_for_two_intervals_is_a_finding_and_ends_with_a_proof_i_32() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "it answered with status 500"))
        await asyncio.sleep(10 * HOUR_S)
        assert "no backup of web is proven" in one.findings()["backup_not_proven"] and state(one).overdue
        assert "drill_failed" in one.findings()
        prober(one).script(one.one().image, Verdict(True))
        assert (await drilled(one)).verdict == "verified"
        await asyncio.sleep(20)
        assert {"backup_not_proven", "drill_failed"} & one.findings().keys() == set() and not state(one).overdue

    play_drills(story, fleet("4h", "2h"))


# ---- what is tried


def test_the_copy_has_image_variables_and_volumes_and_no_way_out() -> None:
    async def story(one: Scene) -> None:
        found = watched(one)
        assert (await drilled(one)).verdict == "verified"
        (made,) = found
        spec, serving = made.spec, one.machine.runtime.made(one.one().id).spec
        assert (spec.reference, spec.env, spec.command, spec.user) == (
            *(serving.reference, serving.env, serving.command, serving.user),
        )
        assert {mount.target for mount in spec.mounts} == {mount.target for mount in serving.mounts}
        assert all(mount.source.startswith("/memory/.drills/web-") for mount in spec.mounts)
        assert made.publish == () and not made.restart and made.dns == () and spec.ports == ()
        assert made.closed is not None and spec.network.endswith(spec.network.rpartition("_drill-")[2])
        assert made.labels.get("holdfast.service") is None and spec.cpu_millicores and spec.memory_bytes
        assert [row.component for row in one.machine.built.services.section().containers] == ["main"]

    play_drills(story)


def test_a_volume_that_a_backup_does_not_hold_begins_with_what_the_image_has_as_in_a_restore() -> None:
    async def story(one: Scene) -> None:
        seeded = {"/cache": Directory({"seed": b"of the image"}), "/book": Directory({"page": b"of the image"})}
        one.machine.runtime.images[one.one().image] = Image(directories=seeded)
        create, seen = one.machine.runtime.create, dict[str, bytes]()

        async def noted(made: CreateContainer, allowed: Any) -> str:
            (files,) = scratch(one).contents.values()
            seen.update(files)
            return await create(made, allowed)

        one.machine.runtime.create = noted  # type: ignore[method-assign]
        assert (await drilled(one)).verdict == "verified"
        assert seen["cache/seed"] == b"of the image" and "cache/x" not in seen
        assert seen["book/page"] == b"first", "what the backup brought stays as it was"
        readers = calls(one, "image_directory")
        assert len(readers) == 1, "no image is read for a volume that is there"
        await tidied(one)

    play_drills(story)


def test_a_container_that_reads_an_image_for_a_drill_does_not_outlive_its_agent() -> None:
    async def story(one: Scene) -> None:
        from holdfast.model.container import LABEL_FLEET, Container

        runtime = one.machine.runtime
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        await ordered(one, "drill")
        await until(one.rig, lambda: bool(calls(one, "start")))
        (reader,) = {call.subject for call in calls(one, "image_directory")}
        await one.kill()
        labels = {LABEL_FLEET: one.machine.membership.fleet, LABEL_INFRASTRUCTURE: "drill"}
        runtime.place(Container("e" * 64, reader, "created", False, labels))
        prober(one).script(one.one().image, Verdict(True))
        one.start()
        await until(one.rig, lambda: not [name for name in remains(one) if name == reader], 60)
        assert "drill_left" not in one.findings()

    play_drills(story)


def test_all_components_are_tried_by_name_and_one_that_waits_for_another_is_started_again() -> None:
    volumes = (Volume("book", "/book", "backup"),)
    two = Service(
        (component(1, "main", volumes=volumes), Component("helper", component().image, routes=(Route("x", 9),)))
    )

    async def story(one: Scene) -> None:
        found = watched(one)
        await one.settled()
        await backups.made(one, 1)
        result = await drilled(one)
        assert result.verdict == "verified" and len(found) == 2, result
        main, helper = sorted(found, key=lambda made: made.name, reverse=True)
        assert main.closed is not None and helper.closed is not None
        assert main.closed.hosts == helper.closed.hosts == (("main", "10.89.0.2"), ("helper", "10.89.0.3"))
        assert (main.closed.address, helper.closed.address) == ("10.89.0.2", "10.89.0.3")

    play(replace(fleet(), services={"web": two}), story)


def test_cmd_of_the_drill_runs_inside_within_its_timeout() -> None:
    said: list[tuple[str, ...]] = []

    def answers(code: int) -> Behaviour:
        def execute(command: Any) -> Finished:
            said.append(tuple(command))
            return Finished(code, "2 rows are missing\n")

        return Behaviour(executes=execute)

    async def story(one: Scene) -> None:
        image = one.one().image
        one.machine.runtime.behaviours[image] = answers(0)
        result = await drilled(one)
        assert result.verdict == "verified" and said == [CMD]
        assert "cmd of [drill] ended with exit code 0 in main" in result.checks
        one.machine.runtime.behaviours[image] = answers(3)
        result = await drilled(one)
        assert result.verdict == "failed" and "exit code 3 in main: 2 rows are missing" in result.reason
        one.machine.runtime.behaviours[image] = Behaviour(exec_s=100.0)
        result = await drilled(one)
        assert result.verdict == "failed" and "exit code 124" in result.reason and result.took_s < 90

    play_drills(story, fleet(drill=Drill(CMD, "1m")))


# ---- verdicts


def test_an_app_that_starts_and_is_not_healthy_is_red_with_its_last_lines() -> None:
    async def story(one: Scene) -> None:
        image = one.one().image
        one.machine.runtime.behaviours[image] = Behaviour(says=("cannot read table 7",))
        prober(one).script(image, Verdict(False, "10.89.0.2:8080 answered with status 500"))
        result = await drilled(one)
        assert result.verdict == "failed" and "answered with status 500" in result.reason
        assert result.lines == ("cannot read table 7",)
        assert "is not good: main is not healthy" in one.findings()["drill_failed"]
        await tidied(one)

    play_drills(story)


def test_an_app_that_ends_on_the_restored_data_is_red() -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.behaviours[one.one().image] = Behaviour(exit_after_s=0.2, exit_code=7)
        result = await drilled(one)
        assert result.verdict == "failed" and "main" in result.reason
        assert len(calls(one, "start")) > 1, "podman would start it again, and so does a drill"
        await tidied(one)

    play_drills(story)


def test_damaged_missing_foreign_and_older_bytes_are_red() -> None:
    async def story(one: Scene) -> None:
        write(one, b"second")
        await ordered(one, "backup")
        first, newest = await backups.made(one, 2)
        await asyncio.sleep(1)
        whole = dict(target(one))
        pack = next(key for key in whole if newest.receipt.packs[0].digest in key)
        receipt = next(key for key in whole if newest.digest in key)
        older = next(key for key in whole if first.digest in key)
        manifest = next(key for key in whole if newest.receipt.manifest.digest in key)
        sealed = next(key for key in whole if "/keys/" in key)
        other = whole[next(key for key in whole if first.receipt.manifest.digest in key)]
        for broken, words in (
            ({pack: whole[pack][:-1]}, "do not have the digest"),
            ({pack: b""}, "is empty"),
            ({pack: None}, "missing where it was stored"),
            ({manifest: other}, "do not have the digest"),
            ({receipt: None}, "the newest one there is number 1"),
            ({receipt: None, older: None}, "none is there"),
            ({receipt: whole[older]}, "do not have the digest"),
            ({sealed: None}, "cannot open"),
        ):
            target(one).update({key: text for key, text in broken.items() if text is not None})
            for key in (key for key, text in broken.items() if text is None):
                target(one).pop(key)
            result = await drilled(one)
            assert result.verdict == "failed" and words in result.reason, (words, result)
            assert result.backup == newest.digest, "of the one that this node's book names"
            target(one).clear()
            target(one).update(whole)
            await tidied(one)
        assert (await drilled(one)).verdict == "verified"

    play_drills(story)


def test_damage_at_one_target_is_red_only_when_no_other_one_may_have_a_good_copy() -> None:
    """As long as one of them does not answer, nothing is known; as soon as all have answered, it is."""

    async def story(one: Scene) -> None:
        nas, hub = one.machine.targets.made["nas"], one.machine.backups.target
        await until(one.rig, lambda: nas.objects == target(one), HOUR_S)
        (newest,) = stored(one)
        kinds = {
            "pack": next(key for key in nas.objects if newest.receipt.packs[0].digest in key),
            "manifest": next(key for key in nas.objects if newest.receipt.manifest.digest in key),
            "key": next(key for key in nas.objects if "/keys/" in key),
        }
        away = Unreachable("the hub does not answer", remedy="wait", code="unreachable")
        for key in kinds.values():
            for rotten in (b"rotten", None):
                for place in (nas.objects, target(one)):
                    whole = place[key]
                    if rotten is None:
                        del place[key]
                    else:
                        place[key] = rotten
                    silent, good = (hub, nas) if place is nas.objects else (nas, hub)
                    silent.trouble = away  # type: ignore[attr-defined]
                    result = await drilled(one)
                    assert result.verdict == "inconclusive" and "cannot be asked" in result.reason, (key, result)
                    assert "the hub does not answer" in result.reason and good is not silent
                    silent.trouble = None  # type: ignore[attr-defined]
                    assert (await drilled(one)).verdict == "verified", "the other one has it"
                    place[key] = whole
            both = (nas.objects, target(one))
            wholes = [place[key] for place in both]
            for place in both:
                place[key] = b"rotten"
            result = await drilled(one)
            assert result.verdict == "failed" and "do not have the digest" in result.reason, (key, result)
            opened = backups.keeper_of(one)._rounds._targets
            opened.troubles = {"stick": Failed("its credential is gone", remedy="seal it again")}
            result = await drilled(one)
            assert result.verdict == "inconclusive" and "its credential is gone" in result.reason, (key, result)
            opened.troubles = {}
            for place, content in zip(both, wholes, strict=True):
                place[key] = content

    nas = Storage("nas", "local-dir", "nas:/export", location="/mnt/nas")
    play_drills(story, replace(fleet(interval="9h"), storage={"nas": nas}))


def test_a_copy_on_the_machine_of_the_data_proves_nothing() -> None:
    async def story(one: Scene) -> None:
        box, hub = one.machine.targets.made["box"], one.machine.backups.target
        await until(one.rig, lambda: box.objects == target(one), HOUR_S)
        key = next(key for key in target(one) if "/packs/" in key)
        whole, target(one)[key] = target(one)[key], b"rotten"
        result = await drilled(one)
        assert result.verdict == "failed" and "do not have the digest" in result.reason, result
        target(one)[key] = whole
        hub.trouble = Unreachable("the hub does not answer", remedy="wait", code="unreachable")  # type: ignore[attr-defined]
        assert (await drilled(one)).verdict == "inconclusive"
        hub.trouble = None  # type: ignore[attr-defined]
        box.objects.clear()
        assert (await drilled(one)).verdict == "verified"

    box = Storage("box", "local-dir", "box-1", location="/srv/box")
    play_drills(story, replace(fleet(interval="9h"), storage={"box": box}))


def test_a_damaged_key_beside_a_whole_one_of_the_same_generation_keeps_no_backup_closed() -> None:
    async def story(one: Scene) -> None:
        sealed = next(key for key in target(one) if "/keys/" in key)
        for digit in "0f":  # before and after it
            target(one)[f"{sealed.rpartition('/')[0]}/{digit * 64}"] = b"rotten"
        result = await drilled(one)
        assert result.verdict == "verified", result
        del target(one)[sealed]
        result = await drilled(one)
        assert result.verdict == "failed" and "do not have the digest" in result.reason, result

    play_drills(story)


def test_what_says_nothing_about_the_backup_is_inconclusive_and_tried_again() -> None:
    async def story(one: Scene) -> None:
        place, image = one.machine.backups.target, one.one().image
        place.trouble = Unreachable("the hub does not answer", remedy="wait", code="unreachable")  # type: ignore[attr-defined]
        result = await drilled(one)
        assert result.verdict == "inconclusive" and "the hub does not answer" in result.reason
        assert "drill_failed" not in one.findings() and "had no result" in one.findings()["drill_inconclusive"]
        place.trouble = None  # type: ignore[attr-defined]
        await asyncio.sleep(HOUR_S)
        last = _last(one)
        assert last is not None and (last.verdict, last.cause) == ("verified", "schedule"), "half an hour later"
        assert "drill_inconclusive" not in one.findings()
        scratch(one).room = 1 << 20
        result = await drilled(one)
        assert result.verdict == "inconclusive" and "bytes of disk" in result.reason and calls(one, "create")
        scratch(one).room = 1 << 40
        one.machine.runtime.here.discard(image)
        no_image = Failed("no such image", remedy="push it", code="image_unknown")
        one.machine.runtime.images[image] = Image(trouble=no_image)
        result = await drilled(one)
        assert result.verdict == "inconclusive" and "no such image" in result.reason
        await tidied(one)
        assert state(one).proven_s, "what was proven before stays"

    play_drills(story)


def test_a_restart_of_the_agent_forgets_no_verdict() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "status 500"))
        result = await drilled(one)
        assert result.verdict == "failed"
        await one.kill()
        one.start()
        await asyncio.sleep(60)
        assert _last(one) == result and "drill_failed" in one.findings()

    play_drills(story)


# ---- beside the service


def test_a_drill_gives_way_to_a_deployment_and_is_repeated_afterwards_m100() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        one.machine.runtime.images[image(2)] = Image(pull_s=5.0)
        order = await ordered(one, "drill")
        await until(one.rig, lambda: bool(calls(one, "start")))
        one.apply({"web": backups.web(2)})
        await one.settled()
        assert _last(one) is None or _last(one).order != order  # type: ignore[union-attr]
        await until(one.rig, lambda: _last(one) is not None and _last(one).order == order, HOUR_S)  # type: ignore[union-attr]
        last = _last(one)
        assert last is not None and last.verdict == "verified"
        await tidied(one)

    play_drills(story)


def test_a_drill_holds_up_no_backup_that_is_due() -> None:
    async def story(one: Scene) -> None:
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        await ordered(one, "drill")
        await until(one.rig, lambda: bool(calls(one, "start")))
        await ordered(one, "backup")
        await backups.made(one, 2, 5)
        assert state(one).running_s, "the drill still runs"

    play_drills(story)


def test_the_newest_proven_backup_is_never_pruned() -> None:
    async def story(one: Scene) -> None:
        result = await drilled(one)
        assert result.verdict == "verified"
        prober(one).script(one.one().image, Verdict(False, "status 500"))
        await asyncio.sleep(12 * HOUR_S)
        left = [one.digest for one in stored(one)]
        assert result.backup in left and len(left) <= 4, "of the hourly ones two stay, and the proven one"

    play_drills(story, fleet(interval="1h", retain=2))


# ---- what is left


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("verb", "subject"), STEPS)
def test_a_runtime_that_fails_at_any_step_leaves_nothing(verb: str, subject: str, when: Any) -> None:
    async def story(one: Scene) -> None:
        one.machine.runtime.cut(verb, subject, when, TryLater("podman is away", remedy="wait", code="runtime_away"))
        result = await drilled(one)
        assert result.verdict in ("verified", "inconclusive"), result
        await tidied(one)
        await asyncio.sleep(60)
        assert "drill_left" not in one.findings() and "drill_failed" not in one.findings()

    play_drills(story, fleet(drill=Drill(CMD)))


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.3, 1.0, 2.5])
def test_an_agent_that_dies_during_a_drill_removes_what_is_left_at_its_next_start(pause_s: float) -> None:
    async def story(one: Scene) -> None:
        slow = asyncio.Event()
        prober(one).script(one.one().image, Verdict(False, "not yet"))
        archiver(one).gate = None
        await ordered(one, "drill")
        await asyncio.sleep(pause_s)
        await one.kill()
        prober(one).script(one.one().image if one.agent is None else "", Verdict(True))
        one.start()
        slow.set()
        await until(one.rig, lambda: not [name for name in remains(one) if "_drill-" in name], 60)

    play_drills(story)


def test_containers_with_our_label_that_the_journal_does_not_know_are_told_and_not_touched() -> None:
    async def story(one: Scene) -> None:
        from holdfast.model.container import LABEL_FLEET, Container

        labels = {LABEL_FLEET: one.machine.membership.fleet, LABEL_INFRASTRUCTURE: "drill"}
        one.machine.runtime.place(Container("f" * 64, "hf-abcdef-web_drill-x-1", "running", True, labels))
        await asyncio.sleep(60)
        assert "hf-abcdef-web_drill-x-1" in one.findings()["drill_left"]
        assert one.machine.runtime.named("hf-abcdef-web_drill-x-1").running

    play_drills(story)
