"""A hub and an agent over memory: checkpoints are listed, restored with what wrote them, and deleted; purged data is
kept aside for seven days of the agent's own time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage import permission
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.services.data import asides
from holdfast.model.container import Mount
from holdfast.model.order import OrderResult
from holdfast.model.report import CheckpointState, RetiredData
from holdfast.ports.storage import Returnable
from tests.fleets.agents import until
from tests.fleets.build import digest_pinned
from tests.fleets.deploying import Scene, play, service
from tests.fleets.desks import OPERATOR
from tests.scenarios.test_volumes import BAD, kept, passport, write

DAY_S = 24 * 3600.0


async def submitted(scene: Scene, action: str, target: str, **given: str) -> str:
    signed = scene.rig.order("w1", scene.machine.journal.highest_counter() + 1, action, 900, target, **given)
    return await scene.rig.desk.submit(OPERATOR, signed)


async def ordered(scene: Scene, action: str, target: str, **given: str) -> OrderResult:
    id = await submitted(scene, action, target, **given)
    await until(scene.rig, lambda: scene.machine.journal.result_of(id) is not None)
    found = scene.machine.journal.result_of(id)
    assert found is not None
    return found


def page(scene: Scene, name: str = "web") -> bytes | None:
    return scene.machine.storage.contents.get(name, {}).get("book/page")


def listed(scene: Scene) -> list[CheckpointState]:
    return list(scene.machine.built.services.section().checkpoints)


def retired(scene: Scene) -> list[RetiredData]:
    return list(scene.machine.built.services.section().retired)


async def updated(scene: Scene) -> CheckpointState:
    """Version 1 wrote; version 2 got the data after a checkpoint, and wrote more."""
    await scene.settled()
    write(scene, b"of version 1")
    scene.apply({"web": kept(2)})
    await scene.settled()
    write(scene, b"of version 2")
    (found,) = listed(scene)
    return found


# ---- listed


def test_a_checkpoint_is_reported_with_what_wrote_it_and_what_it_was_taken_before_n12() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        assert (found.service, found.size_bytes, found.mixed) == ("web", len(b"of version 1"), False)
        assert (found.revision, found.images) == (1, (digest_pinned("web:1"),))
        assert (found.before_revision, found.before_images) == (2, (digest_pinned("web:2"),))
        state = scene.state()
        assert state is not None and found.before == state.applied and found.deployment != found.before

    play({"web": kept()}, story)


def test_after_an_undeploy_the_passport_still_knows_the_revision_that_wrote_the_data() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        scene.apply({"web": kept(2)})
        await scene.settled()
        (found,) = listed(scene)
        assert (found.revision, found.before_revision) == (1, 3)

    play({"web": kept()}, story)


# ---- restored


async def restored(scene: Scene, found: CheckpointState, then: str) -> OrderResult:
    return await ordered(scene, "restore-checkpoint", "data.web", checkpoint=found.id, then=then)


def test_a_restore_brings_back_the_data_and_then_the_version_that_wrote_it_n12() -> None:
    """The version of now does not start with the data of then, and the version of then needs no second copy."""

    async def story(scene: Scene) -> None:
        found = await updated(scene)
        result = await restored(scene, found, "hold")
        assert result.outcome == "done" and "is held until its next deployment" in result.message
        assert page(scene) == b"of version 1" and not scene.one().running
        assert [one.before for one in listed(scene)] == [found.before, ""], "what was replaced is a checkpoint"
        assert listed(scene)[1].revision == 2
        scene.machine.runtime.calls.clear()
        scene.apply({"web": kept(1)})
        state = await scene.settled()
        assert state.images == (digest_pinned("web:1"),) and page(scene) == b"of version 1"
        assert len(listed(scene)) == 2 and not [step for step in state.steps if step.name.startswith("checkpoint")]
        again = await restored(scene, listed(scene)[1], "hold")
        assert again.outcome == "done" and page(scene) == b"of version 2", "a restore is undone by a restore"

    play({"web": kept()}, story)


def test_a_restore_of_data_alone_starts_the_applied_version_with_it() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        result = await restored(scene, found, "start")
        assert result.outcome == "done" and result.message.endswith("service.web runs with it")
        await scene.settled()
        assert page(scene) == b"of version 1" and scene.one().running
        assert scene.one().image == digest_pinned("web:2") and passport(scene).checkpoint == found.id

    play({"web": kept()}, story)


def test_a_service_that_was_stopped_stays_so() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        assert (await ordered(scene, "stop", "service.web")).outcome == "done"
        result = await restored(scene, found, "start")
        assert result.outcome == "done" and result.message.endswith("and stays so") and page(scene) == b"of version 1"
        assert not scene.one().running

    play({"web": kept()}, story)


def test_a_service_that_is_declared_inactive_gets_its_data_and_stays_stopped() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        scene.apply({"web": replace(kept(2), active=False)})
        await scene.settled("held")
        result = await restored(scene, found, "start")
        assert result.outcome == "done" and "active = false" in result.message and page(scene) == b"of version 1"
        assert not scene.one().running

    play({"web": kept()}, story)


def test_the_data_of_a_removed_service_is_restored_in_its_place() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        assert (await restored(scene, found, "hold")).outcome == "done" and page(scene) == b"of version 1"
        scene.apply({"web": kept(1)})
        await scene.settled()
        assert page(scene) == b"of version 1"

    play({"web": kept()}, story)


@pytest.mark.parametrize("then", ["hold", "start"])
def test_what_a_foreign_container_mounts_is_not_replaced(then: str) -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        scene.machine.runtime.mounted["by-hand"] = (Mount("/memory/web/book", "/data"),)
        result = await restored(scene, found, then)
        assert (result.outcome, result.code) == ("failed", "in_use") and "by-hand" in result.message
        await scene.settled()
        assert page(scene) == b"of version 2" and scene.one().running, "it runs on"
        assert [name for name in scene.machine.storage.contents if name.startswith(".")] == []

    play({"web": kept()}, story)


def test_an_unknown_checkpoint_changes_nothing() -> None:
    async def story(scene: Scene) -> None:
        await updated(scene)
        for given in ({"checkpoint": "no-such"}, {}):
            result = await ordered(scene, "restore-checkpoint", "data.web", **given)
            assert (result.outcome, result.code) == ("failed", "not_found")
            assert "holdfast checkpoint list web" in result.remedy
        assert page(scene) == b"of version 2" and scene.one().running

    play({"web": kept()}, story)


def test_a_failed_update_goes_back_with_its_data() -> None:
    """The applied version failed, and the one before serves: what the attempt did to the data is undone."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene, b"of version 1")
        scene.machine.prober.script(digest_pinned("web:2"), *[BAD] * 99)
        scene.apply({"web": kept(2)})
        await scene.settled("failed")
        write(scene, b"migrated by version 2")
        (found,) = listed(scene)
        assert (await restored(scene, found, "hold")).outcome == "done"
        scene.apply({"web": kept(1)})
        await scene.settled()
        assert page(scene) == b"of version 1" and scene.one().image == digest_pinned("web:1")

    play({"web": kept()}, story)


# ---- killed anywhere


class Killed(BaseException):
    """kill -9: nothing after it happens."""


class Doom:
    """Ends the process before its n-th write to the journal or to the data."""

    def __init__(self) -> None:
        self.left = 10**9

    def write(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


def mortal(kind: type, doom: Doom, *names: str) -> Any:
    def method(name: str) -> Callable[..., Any]:
        def act(self: Any, *given: Any) -> Any:
            doom.write()
            return getattr(kind, name)(self, *given)

        return act

    return type("Mortal", (kind,), {name: method(name) for name in names})


def make_mortal(scene: Scene) -> Doom:
    doom = Doom()
    journal, storage = scene.machine.journal, scene.machine.storage
    writes = ("begin", "step", "steps", "finish", "set_aside", "drop_fact", "note_made", "forget_made")
    journal.__class__ = mortal(MemoryJournal, doom, *writes)
    storage.__class__ = mortal(MemoryStorage, doom, "stage", "exchange", "condemn", "dispose", "bring_back")
    return doom


@pytest.mark.parametrize("then", ["hold", "start"])
def test_killed_at_any_write_the_data_is_the_old_or_the_restored_one_and_the_order_goes_on(then: str) -> None:
    deaths = 0

    async def story(scene: Scene) -> None:
        nonlocal deaths
        found = await updated(scene)
        doom = make_mortal(scene)
        for at in range(60):
            write(scene, b"of version 2")
            doom.left = at
            id = await submitted(scene, "restore-checkpoint", "data.web", checkpoint=found.id, then=then)
            await asyncio.sleep(20)
            died = doom.left < 0
            deaths += died
            assert page(scene) in (b"of version 1", b"of version 2")
            await scene.kill()
            doom.left = 10**9
            scene.start()
            await until(scene.rig, lambda id=id: scene.machine.journal.result_of(id) is not None)  # type: ignore[misc]
            result = scene.machine.journal.result_of(id)
            assert result is not None and result.outcome == "done", (at, result)
            assert page(scene) == b"of version 1", at
            copies = scene.machine.storage.copies
            assert copies["web", f"restore-{id[:16]}"][1]["book/page"] == b"of version 2", at
            assert [name for name in scene.machine.storage.contents if name.startswith(".")] == [], at
            if then == "hold":
                await ordered(scene, "start", "service.web")
            await scene.settled()
            assert scene.one().running
            if not died:
                return
        raise AssertionError("it never got through")

    play({"web": kept()}, story)
    assert deaths >= 8


@pytest.mark.parametrize("is_lost", [False, True])
def test_killed_at_any_write_a_purge_and_its_way_back_go_on_n11(is_lost: bool) -> None:
    """`is_lost`: the journal does not know what was set aside."""
    deaths = 0

    async def story(scene: Scene) -> None:
        nonlocal deaths
        await updated(scene)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        doom = make_mortal(scene)
        for action in ("purge", "restore-retired"):
            for at in range(40):
                given = {"purge": retired(scene)[0].purge} if action == "restore-retired" else {}
                if given and is_lost:
                    await scene.kill()
                    for fact in scene.machine.journal.facts(asides.PREFIX):
                        scene.machine.journal.drop_fact(fact)
                    scene.start()
                    await until(scene.rig, lambda: bool(retired(scene)))
                    assert retired(scene)[0].until_s == 0.0
                doom.left = at
                id = await submitted(scene, action, "data.web", **given)
                await asyncio.sleep(20)
                died = doom.left < 0
                deaths += died
                await scene.kill()
                doom.left = 10**9
                scene.start()
                await until(scene.rig, lambda id=id: scene.machine.journal.result_of(id) is not None)  # type: ignore[misc]
                result = scene.machine.journal.result_of(id)
                assert result is not None and result.outcome == "done", (action, at, result)
                there = action == "restore-retired"
                assert (page(scene) == b"of version 2") is there, (action, at)
                assert (len(scene.machine.storage.copies) == 1) is there, (action, at)
                await until(scene.rig, lambda: bool(retired(scene)))
                assert [bool(one.purge) for one in retired(scene)] == [not there], (action, at)
                if not died:
                    break
                undo = {"purge": id} if action == "purge" else {}
                other = "restore-retired" if action == "purge" else "purge"
                assert (await ordered(scene, other, "data.web", **undo)).outcome == "done"
            else:
                raise AssertionError("it never got through")

    play({"web": kept()}, story)
    assert deaths >= 8


def test_what_is_back_already_is_said_to_be_back_also_if_its_service_is_applied_again_meanwhile() -> None:
    async def story(scene: Scene) -> None:
        await purged(scene)
        doom, bring_back = make_mortal(scene), scene.machine.storage.bring_back

        def then_die(proof: Returnable) -> None:
            bring_back(proof)
            doom.left = 0

        scene.machine.storage.bring_back = then_die  # type: ignore[method-assign]
        id = await submitted(scene, "restore-retired", "data.web", purge=retired(scene)[0].purge)
        await asyncio.sleep(20)
        assert doom.left < 0 and page(scene) == b"of version 2"
        await scene.kill()
        doom.left = 10**9
        scene.apply({"web": kept(2)})
        scene.start()
        await scene.settled()
        result = scene.machine.journal.result_of(id)
        assert result is not None and result.outcome == "done" and "data.web is back: 12 bytes" in result.message

    play({"web": kept()}, story)


# ---- deleted


def test_one_checkpoint_is_deleted_by_an_order_that_names_it() -> None:
    async def story(scene: Scene) -> None:
        found = await updated(scene)
        result = await ordered(scene, "delete-checkpoint", "data.web", checkpoint=found.id)
        assert result.outcome == "done" and listed(scene) == [] and page(scene) == b"of version 2"
        assert not scene.machine.journal.facts("services/checkpoint/")
        again = await ordered(scene, "delete-checkpoint", "data.web", checkpoint=found.id)
        assert (again.outcome, again.code) == ("failed", "not_found")

    play({"web": kept()}, story)


# ---- purged


async def purged(scene: Scene, **given: str) -> OrderResult:
    """Version 2 ran, its checkpoint is there, and the service was removed."""
    await updated(scene)
    scene.apply({})
    await until(scene.rig, lambda: scene.ours() == [])
    return await ordered(scene, "purge", "data.web", **given)


def test_a_purge_sets_data_and_checkpoints_aside_and_an_order_brings_them_back_n11() -> None:
    async def story(scene: Scene) -> None:
        result = await purged(scene)
        assert result.outcome == "done" and "set aside for 7 days" in result.message
        assert "and 1 checkpoint (12 bytes)" in result.message
        assert page(scene) is None and listed(scene) == []
        (found,) = retired(scene)
        assert (found.name, found.files, found.checkpoints, found.removed_in) == ("web", 1, 1, 3)
        assert abs(found.until_s - scene.machine.clock.now_s() - 7 * DAY_S) < 60
        back = await ordered(scene, "restore-retired", "data.web", purge=found.purge)
        assert back.outcome == "done" and page(scene) == b"of version 2" and len(listed(scene)) == 1
        assert [one.purge for one in retired(scene)] == [""]
        assert listed(scene)[0].revision == 1, "what was known of its checkpoints is known"
        scene.apply({"web": kept(2)})
        await scene.settled()
        assert page(scene) == b"of version 2" and passport(scene).maker != "", "its passport came back, too"

    play({"web": kept()}, story)


def test_a_purge_now_destroys_data_checkpoints_and_what_earlier_purges_set_aside_n11() -> None:
    async def story(scene: Scene) -> None:
        await purged(scene)
        scene.apply({"web": kept(2)})
        await scene.settled()
        write(scene, b"made since")
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        result = await ordered(scene, "purge", "data.web", now="yes")
        assert result.outcome == "done" and result.message.startswith("data.web is gone: 10 bytes")
        assert "; 24 bytes of earlier purges" in result.message, "12 of the data and 12 of its checkpoint"
        storage = scene.machine.storage
        assert storage.contents == {} and storage.copies == {} and storage.beside == {} and storage.passports == {}
        assert retired(scene) == [] and listed(scene) == []
        assert not scene.machine.journal.facts(asides.PREFIX) and not scene.machine.journal.facts("services/checkp")

    play({"web": kept()}, story)


@pytest.mark.parametrize("jump_s", [0.0, 30 * DAY_S, -30 * DAY_S])
def test_what_is_set_aside_is_deleted_after_its_time_by_the_agents_own_clock(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that jumps forwards deletes nothing early; one that jumps back does not keep it for ever. Restarts, and
    time in which no agent runs, do not count."""
    monkeypatch.setattr(asides, "KEPT_S", 4 * 3600.0)

    async def story(scene: Scene) -> None:
        await purged(scene)
        scene.machine.clock.skew_s += jump_s
        await asyncio.sleep(3600)
        await scene.kill()
        await asyncio.sleep(10 * 3600)
        scene.start()
        await asyncio.sleep(2.9 * 3600)
        assert len(retired(scene)) == 1 and scene.machine.storage.beside
        await asyncio.sleep(0.5 * 3600)
        assert retired(scene) == [] and scene.machine.storage.beside == {} and scene.machine.storage.contents == {}
        assert scene.machine.journal.facts(asides.PREFIX) == {}

    play({"web": kept()}, story)


def test_after_a_lost_journal_what_was_set_aside_is_reported_stays_and_comes_back_by_an_order_n11(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asides, "KEPT_S", 3600.0)

    async def story(scene: Scene) -> None:
        await purged(scene)
        (before,) = retired(scene)
        await scene.kill()
        scene.machine.journal = MemoryJournal()
        scene.start()
        await until(scene.rig, lambda: retired(scene) != [])
        assert retired(scene) == [replace(before, removed_in=0, until_s=0.0)], "nothing counts down"
        await asyncio.sleep(2 * 3600)
        await ordered(scene, "resync", "node.w1")
        back = await ordered(scene, "restore-retired", "data.web", purge=before.purge)
        assert back.outcome == "done" and back.message.startswith("data.web is back: 12 bytes in 1 file")
        assert page(scene) == b"of version 2" and len(listed(scene)) == 1
        assert [one.purge for one in retired(scene)] == [""]

    play({"web": kept()}, story)


def test_purged_data_does_not_come_back_under_a_service_that_is_applied_again() -> None:
    async def story(scene: Scene) -> None:
        await purged(scene)
        scene.apply({"web": kept(2)})
        await scene.settled()
        (found,) = retired(scene)
        result = await ordered(scene, "restore-retired", "data.web", purge=found.purge)
        assert (result.outcome, result.code) == ("failed", "in_use") and "holdfast undeploy web" in result.remedy
        unknown = await ordered(scene, "restore-retired", "data.web", purge="f" * 32)
        assert (unknown.outcome, unknown.code) == ("failed", "not_found")

    play({"web": kept()}, story)


def test_purged_data_does_not_come_back_into_a_directory_that_a_foreign_container_mounts() -> None:
    async def story(scene: Scene) -> None:
        await purged(scene)
        (found,) = retired(scene)
        scene.machine.storage.contents["web"] = {}
        scene.machine.runtime.mounted["by-hand"] = (Mount("/memory/web", "/data"),)
        result = await ordered(scene, "restore-retired", "data.web", purge=found.purge)
        assert (result.outcome, result.code) == ("failed", "in_use") and "by-hand" in result.message
        assert page(scene) is None and len(retired(scene)) == 1

    play({"web": kept()}, story)


def test_a_service_without_data_has_no_checkpoint() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.apply({"web": service(2)})
        await scene.settled()
        assert listed(scene) == []

    play({"web": service()}, story)


@pytest.mark.parametrize("broken", ["dispose", "checkpoints"])
def test_trouble_with_old_data_is_a_finding_and_keeps_no_service_from_being_deployed(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file system was mounted inside what was set aside, or a disk cannot be read."""
    monkeypatch.setattr(asides, "KEPT_S", 3600.0)

    async def story(scene: Scene) -> None:
        await purged(scene)
        works, tried = getattr(scene.machine.storage, broken), []

        def refuse(*given: object) -> None:
            tried.append(given)
            raise permission.not_ours("it is a mount point")

        setattr(scene.machine.storage, broken, refuse)
        await asyncio.sleep(2 * 3600)
        assert 2 < len(tried) < 20, "it is tried again every ten minutes"
        scene.apply({"blog": service()})
        await scene.settled(name="blog")
        assert scene.one().running and "internal_error" not in scene.findings()
        assert scene.findings()["data_not_tended"].startswith("it is a mount point")
        setattr(scene.machine.storage, broken, works)
        await asyncio.sleep(1200)
        assert retired(scene) == [] and "data_not_tended" not in scene.findings()

    play({"web": kept()}, story)
