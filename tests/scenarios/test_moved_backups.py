"""Backups of a service that moved: the other node's stay until one of its own is proven; then they go by the rule, with
their packs (issue 15, I-32)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.model import backup_key
from holdfast.model.backup import Receipt
from holdfast.model.fleet import Backups
from holdfast.planning.plan import Inputs, plan
from holdfast.trust import receipts
from tests.fleets.move_stories import PAGE, MoveStory, keyed, notes
from tests.scenarios.test_moves_changed import move, ordered, play, runs, until

RETAIN = 2


def stored(story: MoveStory) -> dict[str, Receipt]:
    """Digest → receipt, the older ones first."""
    found = {}
    for text, content in story.backups.objects.items():
        key = backup_key.parse(text)
        if key.kind == "receipts":
            found[key.digest] = receipts.named(content, key.digest, story.rig.fleet_id, "web").receipt
    return dict(sorted(found.items(), key=lambda one: (one[1].epoch, one[1].sequence)))


def of(story: MoveStory, node: str) -> list[int]:
    return [one.sequence for one in stored(story).values() if one.node == node]


def surplus(story: MoveStory) -> set[str]:
    """Packs and manifests that no receipt names."""
    named = {one.digest for receipt in stored(story).values() for one in (receipt.manifest, *receipt.packs)}
    keys = [backup_key.parse(text) for text in story.backups.objects]
    return {key.digest for key in keys if key.kind in ("packs", "manifests")} - named


async def backed_up(story: MoveStory, node: str, times: int) -> None:
    for _ in range(times):
        count = len(of(story, node)), sum(of(story, node))
        page = story.machines[node].page + 1
        story.machines[node].storage.contents["web"][PAGE] = b"%d" % page
        assert (await ordered(story, node, "backup")).outcome == "done"
        await until(story, lambda: (len(of(story, node)), sum(of(story, node))) != count)  # noqa: B023
        await asyncio.sleep(20)  # old ones go afterwards


def state(story: MoveStory, node: str, keeper: str) -> Any:
    found: Any = next(one for one in story.agents[node].keepers.every if one.name == keeper)
    return found.section()


def few(scene: Callable[[MoveStory], Coroutine[Any, Any, None]]) -> None:
    """The fleet keeps few backups."""

    async def whole(story: MoveStory) -> None:
        applied = story.rig.hub.applied()
        fleet = replace(keyed({"web": notes()}), backups=Backups(retain=RETAIN))
        story.commit(plan(fleet, applied, Inputs(seen=story.rig.desk.observations())))
        await asyncio.sleep(20)
        await scene(story)

    play(whole, is_witnessed=False)


def test_a_node_that_took_a_service_over_keeps_what_was_there_until_its_own_is_proven_and_then_frees_it() -> None:
    async def scene(story: MoveStory) -> None:
        await backed_up(story, "w1", 5)
        before = of(story, "w1")
        assert before[-1] >= 5 and len(before) <= RETAIN + 2 and surplus(story) == set()
        move(story, "w2")
        await runs(story, w2=1)
        await backed_up(story, "w2", 4)
        assert of(story, "w1") == before, "which of them was proven, only w1 knows"
        newest = list(stored(story).values())[-1]
        assert (newest.node, newest.sequence) == ("w2", max(of(story, "w2"))) and newest.sequence < before[-1]
        assert len(of(story, "w2")) <= RETAIN + 1, "its own go by the rule"
        (told,) = state(story, "w2", "backups").backups
        assert told.last.sequence == newest.sequence
        drill = await ordered(story, "w2", "drill")
        assert drill.outcome == "done"
        await until(story, lambda: bool(state(story, "w2", "drills").drills[0].proven), 3600)
        proven = state(story, "w2", "drills").drills[0].proven
        await asyncio.sleep(25 * 3600)  # every byte of the newest is read once a day
        await backed_up(story, "w2", 3)
        assert of(story, "w1") == [] and proven in stored(story), (of(story, "w1"), of(story, "w2"))
        assert surplus(story) == set(), "its packs are gone with it"

    few(scene)


def test_what_the_other_node_made_meanwhile_stays_when_the_service_comes_back() -> None:
    async def scene(story: MoveStory) -> None:
        await backed_up(story, "w1", 3)
        move(story, "w2")
        await runs(story, w2=1)
        await backed_up(story, "w2", 2)
        own = of(story, "w2")
        move(story, "w1", aside=True)
        await runs(story, w1=1)
        await backed_up(story, "w1", 3)
        assert of(story, "w2") == own, "until one of w1's in this epoch is proven"
        last = list(stored(story).values())[-1]
        assert last.node == "w1" and last.epoch == 3 and last.sequence > 3

    few(scene)
