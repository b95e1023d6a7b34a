"""A service moves without its source, which is dead: it begins with a backup that the signed revision names (M-107)."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Literal

import pytest
from msgspec.structs import replace

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.runtime.memory import Directory, Image
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.model import backup_key
from holdfast.model.fleet import Volume
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.sealing import CannotOpen
from holdfast.trust import receipts
from tests.fleets import virtual
from tests.fleets.desks import key_of
from tests.fleets.dying import Dying
from tests.fleets.move_stories import CALM_S, JOURNAL, PAGE, MoveStory, keyed, notes
from tests.fleets.virtual import VirtualLoop
from tests.scenarios.test_moves_changed import findings, ordered, play, runs, until


def newest(story: MoveStory) -> tuple[str, bytes]:
    """The digest of the newest receipt, and its key sealed to every node: an operator could open it."""
    stored = story.backups.objects
    keys = [backup_key.parse(text) for text in stored]
    last = [key for key in keys if key.kind == "receipts"][-1]  # in the order in which they were stored
    receipt = receipts.named(stored[last.text], last.digest, story.rig.fleet_id, "web").receipt
    for key in (key for key in keys if (key.kind, key.generation) == ("keys", receipt.generation)):
        with suppress(CannotOpen):
            plain = MemoryOpener(key_of(receipt.node).line).open(stored[key.text])
            sealer = MemorySealer(SeededRandom("operator"))
            return last.digest, sealer.seal(plain, sorted(key_of(one).line for one in story.machines))
    raise AssertionError("no node can open the key")


def restore(story: MoveStory, target: str, aside: bool = False) -> None:
    applied = story.rig.hub.applied()
    assert applied is not None
    digest, key = newest(story)
    wish = Wish("web", target, backup=digest, key=key, aside=aside)
    story.commit(plan_move(wish, applied, story.rig.desk.observations()))


def test_a_service_whose_node_died_starts_elsewhere_with_its_backup_and_the_old_copy_stays_stopped() -> None:
    async def scene(story: MoveStory) -> None:
        source = story.machines["w1"]
        source.storage.contents["web"][PAGE] = b"7"
        assert (await ordered(story, "w1", "backup")).outcome == "done"
        source.storage.contents["web"][PAGE] = b"8"
        await story.kill_agent("w1", power=True)
        restore(story, "w2")
        await runs(story, w2=1)
        assert story.machines["w2"].page == 7
        story.start_agent("w1")
        await asyncio.sleep(60)
        assert story.running() == {"w2": 1} and source.page == 8, "its copy is kept"
        story.check_left()
        assert "move_waits" not in findings(story)["w1"]

    play(scene, is_witnessed=False)


def test_a_volume_that_the_backup_did_not_bring_begins_with_what_the_image_has() -> None:
    """As in a drill, which said that it works."""

    async def scene(story: MoveStory) -> None:
        source, target = story.machines["w1"], story.machines["w2"]
        plain = notes()
        (part,) = plain.components
        more = replace(part, volumes=(*part.volumes, Volume("art", "/art", protect="none")))
        fleet = keyed({"web": replace(plain, components=(more,))})
        story.commit(plan(fleet, story.rig.hub.applied(), Inputs(seen=story.rig.desk.observations())))
        await asyncio.sleep(20)
        source.storage.contents["web"].update({PAGE: b"7", "art/own": b"in no backup"})
        assert (await ordered(story, "w1", "backup")).outcome == "done"
        await story.kill_agent("w1", power=True)
        target.runtime.images[part.image] = Image(directories={"/art": Directory({"seed": b"of the image"})})
        restore(story, "w2")
        await runs(story, w2=1)
        assert target.page == 7 and target.storage.contents["web"].get("art/seed") == b"of the image"

    play(scene, is_witnessed=False)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restore_elsewhere_cut_at_any_write_into_the_journal_ends_with_one_copy(
    when: Literal["before", "after"],
) -> None:
    async def main(loop: VirtualLoop) -> int:
        story = MoveStory(loop, 1)
        await story.calm()
        await runs(story, w1=1)
        for number in count(1):
            source, target = ("w1", "w2") if story.running() == {"w1": 1} else ("w2", "w1")
            story.machines[source].storage.contents["web"][PAGE] = b"%d" % number
            assert (await ordered(story, source, "backup")).outcome == "done"
            dying = Dying(number, when, lambda first: True)
            await story.kill_agent(source, power=True)
            dying.watch(story.machines[target].journal, *JOURNAL)
            restore(story, target, aside=True)
            end_s = loop.time() + 20
            while not dying.at and loop.time() < end_s:
                await asyncio.sleep(0.05)
            if dying.at:
                await story.kill_agent(target, power=number % 2 == 0)
            dying.revive()
            if dying.at:
                story.start_agent(target)
            await until(story, lambda: story.running() == {target: 1}, CALM_S)  # noqa: B023
            assert story.machines[target].page == number
            story.start_agent(source)
            await asyncio.sleep(20)
            assert story.running() == {target: 1} and story.broken == []
            if not dying.at:
                break
        story.check_left()
        assert story.broken == []
        return number

    assert virtual.run(main) > 5
