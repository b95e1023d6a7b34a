"""A move, and one that is taken back, cut off at every write into the journal of its source and of its target (I-20,
I-28): a whole copy is always there, and one copy runs within 60 seconds after the restart."""

import asyncio
from functools import partial
from itertools import count
from typing import Literal

import pytest

from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from tests.fleets import virtual
from tests.fleets.dying import Dying
from tests.fleets.move_stories import CALM_S, JOURNAL, MoveStory
from tests.fleets.virtual import VirtualLoop

BACK_S = 1.2  # after a move began: its source has signed

Role = Literal["source", "target"]
Kind = Literal["move", "to a fresh node", "taken back"]


async def moved(story: MoveStory, target: str, kind: Kind) -> None:
    applied = story.rig.hub.applied()
    assert applied is not None
    if kind == "to a fresh node":
        story.machines[target].storage.contents.pop("web", None)
    wish = Wish("web", target, aside=kind != "to a fresh node")
    story.commit(plan_move(wish, applied, story.rig.desk.observations()))
    if kind == "taken back":
        await asyncio.sleep(story.random.uniform(0, BACK_S))
        applied = story.rig.hub.applied()
        assert applied is not None
        story.commit(plan_abort("web", applied))


async def one_runs(story: MoveStory, within_s: float) -> bool:
    end_s = story.loop.time() + within_s
    while story.running() != {str(story.entry.node): 1} or story.is_moving():
        if story.loop.time() > end_s:
            return False
        await asyncio.sleep(0.1)
    return True


async def cut_everywhere(story: MoveStory, role: Role, kind: Kind, when: Literal["before", "after"]) -> int:
    for number in count(1):
        source = str(story.entry.node)
        target = "w2" if source == "w1" else "w1"
        node = source if role == "source" else target
        dying = Dying(number, when, lambda first: True)
        dying.watch(story.machines[node].journal, *JOURNAL)
        story.note(f"cut {number} of {node}, from {source} to {target}")
        await moved(story, target, kind)
        end_s = story.loop.time() + 20
        while not dying.at and story.loop.time() < end_s:
            await asyncio.sleep(0.05)
        if dying.at:
            await story.kill_agent(node, power=number % 2 == 0)
        dying.revive()
        if not dying.at:
            return number - 1
        await asyncio.sleep(story.random.choice((0.5, 5.0)))
        story.start_agent(node)
        assert await one_runs(story, CALM_S), (number, dying.at, story.running(), story.trace[-20:])
        await asyncio.sleep(5)
        assert story.broken == [], (number, dying.at, story.broken, story.trace[-20:])
    raise AssertionError


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["move", "to a fresh node", "taken back"])
@pytest.mark.parametrize("role", ["source", "target"])
def test_a_crash_at_any_write_into_the_journal_ends_with_one_running_copy(
    role: Role, kind: Kind, when: Literal["before", "after"]
) -> None:
    async def main(loop: VirtualLoop, seed: int) -> int:
        story = MoveStory(loop, seed)
        await story.calm()
        assert await one_runs(story, CALM_S)
        witness = loop.create_task(story.witness())
        await asyncio.sleep(10)
        cuts = await cut_everywhere(story, role, kind, when)
        assert await one_runs(story, CALM_S)
        await asyncio.sleep(60)
        story.check_left()
        assert story.broken == [], story.trace[-20:]
        witness.cancel()
        return cuts

    seeds = (1, 2) if kind == "taken back" else (1,)  # it is taken back at another moment
    assert sum(virtual.run(partial(main, seed=seed)) for seed in seeds) > 10
