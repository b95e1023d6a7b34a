"""What else happens while a service moves with its data: other revisions, orders, holds, our own mistakes."""

import asyncio
from collections.abc import Callable, Coroutine
from copy import deepcopy
from typing import Any

import pytest

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.moves.source.packing import MovePacking
from holdfast.model.order import OrderResult
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from holdfast.planning.plan import plan
from tests.fleets import virtual
from tests.fleets.agents import services_of
from tests.fleets.move_stories import PAGE, MoveStory, keyed, notes
from tests.fleets.virtual import VirtualLoop

Story = Callable[[MoveStory], Coroutine[Any, Any, None]]


def play(scene: Story, is_witnessed: bool = True) -> None:
    async def main(loop: VirtualLoop) -> None:
        story = MoveStory(loop, 1)
        await story.calm()
        await runs(story, w1=1)
        witness = loop.create_task(story.witness() if is_witnessed else asyncio.sleep(0))
        await asyncio.sleep(5)
        await scene(story)
        assert story.broken == [], story.trace
        witness.cancel()

    virtual.run(main)


async def until(story: MoveStory, true: Callable[[], bool], within_s: float = 60.0) -> None:
    end_s = story.loop.time() + within_s
    while not true():
        assert story.loop.time() < end_s, (story.trace[-15:], findings(story))
        await asyncio.sleep(0.05)


async def runs(story: MoveStory, **where: int) -> None:
    await until(story, lambda: story.running() == where)


def move(story: MoveStory, target: str, aside: bool = False) -> None:
    applied = story.rig.hub.applied()
    assert applied is not None
    story.commit(plan_move(Wish("web", target, aside=aside), applied, story.rig.desk.observations()))


def abort(story: MoveStory) -> None:
    applied = story.rig.hub.applied()
    assert applied is not None
    story.commit(plan_abort("web", applied))


def findings(story: MoveStory) -> dict[str, dict[str, str]]:
    return {
        node: {one.code: f"{one.message} {one.remedy}" for one in agent.findings.all()}
        for node, agent in story.agents.items()
    }


async def begun(story: MoveStory, target: str, aside: bool = False) -> None:
    """The source has sent a pass, and the target does not answer."""
    story.cut.add(target)
    move(story, target, aside)
    await until(story, lambda: any("/manifests/" in key for key in story.mailbox_objects.found))


async def ordered(story: MoveStory, node: str, action: str, target: str = "service.web", **given: str) -> OrderResult:
    id = await story.ordered(node, action, target, **given)
    journal = story.machines[node].journal
    await until(story, lambda: journal.result_of(id) is not None)
    found = journal.result_of(id)
    assert found is not None
    return found


def held(story: MoveStory, node: str) -> bool:
    return services_of(story.agents[node]).records.of("web").held


# ---- nothing is left


def test_nothing_is_left_of_a_move_but_the_copy_at_its_source() -> None:
    async def scene(story: MoveStory) -> None:
        move(story, "w2")
        await runs(story, w2=1)
        await asyncio.sleep(10)
        assert story.left() == [] and len(story.mailbox_objects.found) == 1, "that it is handed over, for w1"
        story.check_left()
        assert story.machines["w1"].newest > 0 and not story.machines["w1"].journal.facts("moves/key/")

    play(scene)


def test_nothing_is_left_of_a_move_that_was_taken_back() -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        story.cut.clear()
        await until(story, lambda: bool(story.machines["w2"].storage.incoming))
        abort(story)
        await asyncio.sleep(30)
        assert story.running() == {"w1": 1} and story.left() == []
        story.check_left()

    play(scene)


# ---- other revisions


def test_a_service_that_changes_while_it_moves_starts_changed() -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        await story.deploy()
        await asyncio.sleep(20)
        assert story.running() == {"w1": 1}
        story.cut.clear()
        await runs(story, w2=1)
        (one,) = [c for c in await story.machines["w2"].runtime.containers() if c.running]
        assert one.image == notes(2).components[0].image
        await asyncio.sleep(10)
        story.check_left()

    play(scene)


def test_a_service_that_changes_between_stop_and_handover_moves_all_the_same() -> None:
    async def scene(story: MoveStory) -> None:
        move(story, "w2")
        await until(story, lambda: story.running() == {})
        await story.deploy()
        await runs(story, w2=1)
        await asyncio.sleep(10)
        story.check_left()

    play(scene)


def test_a_service_that_is_undeployed_while_it_moves_stops_and_its_data_stays() -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        story.cut.clear()
        await until(story, lambda: bool(story.machines["w2"].storage.incoming))
        applied = story.rig.hub.applied()
        assert applied is not None
        story.commit(plan(keyed({}), applied))
        await runs(story)
        await asyncio.sleep(30)
        assert story.running() == {} and story.mailbox_objects.found == {}
        assert story.machines["w1"].page == story.written
        story.check_left()

    play(scene)


def test_a_move_from_a_node_that_never_got_the_data_starts_nothing() -> None:
    """Planning refuses it; an operator may sign it all the same."""

    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        move(story, "w3")
        story.cut.clear()
        await until(story, lambda: "move_waits" in findings(story)["w3"])
        await asyncio.sleep(60)
        assert story.running() == {} and story.machines["w1"].page == story.written
        assert "w2 never had the data of web" in findings(story)["w3"]["move_waits"]

    play(scene)


def test_data_that_is_in_the_way_keeps_the_service_where_it_is() -> None:
    async def scene(story: MoveStory) -> None:
        move(story, "w2")
        await runs(story, w2=1)
        await asyncio.sleep(10)
        move(story, "w1")
        await until(story, lambda: "move_waits" in findings(story)["w1"])
        assert "this node has data of web already" in findings(story)["w1"]["move_waits"]
        await asyncio.sleep(30)
        assert story.running() == {"w2": 1}
        abort(story)
        await asyncio.sleep(20)
        assert story.running() == {"w2": 1} and "move_waits" not in findings(story)["w1"]
        move(story, "w1", aside=True)
        await runs(story, w1=1)

    play(scene)


# ---- orders


def test_a_service_that_is_held_stays_held_where_it_moves_to() -> None:
    async def scene(story: MoveStory) -> None:
        assert (await ordered(story, "w1", "stop")).outcome == "done"
        move(story, "w2")
        await until(story, lambda: not story.is_moving())
        await asyncio.sleep(20)
        assert story.running() == {} and held(story, "w2")
        assert (await ordered(story, "w2", "start")).outcome == "done"
        assert story.running() == {"w2": 1}

    play(scene)


def test_a_service_that_is_held_stays_held_if_its_move_is_taken_back() -> None:
    async def scene(story: MoveStory) -> None:
        await ordered(story, "w1", "stop")
        await begun(story, "w2")
        abort(story)
        await asyncio.sleep(20)
        assert story.running() == {} and held(story, "w1")
        story.cut.clear()
        move(story, "w2")
        await until(story, lambda: not story.is_moving())
        abort(story)
        await until(story, lambda: not story.is_moving())
        await asyncio.sleep(20)
        assert story.running() == {} and held(story, "w1")
        await ordered(story, "w1", "start")
        assert story.running() == {"w1": 1}

    play(scene)


def test_a_held_service_whose_source_dies_at_the_end_stays_held() -> None:
    """What the agent holds for a handover is told from what an order held."""

    async def scene(story: MoveStory) -> None:
        await ordered(story, "w1", "stop")
        await begun(story, "w2")
        keep = MovePacking.pack

        async def stuck(*given: Any, **named: Any) -> Any:
            if named.get("urgent"):
                await asyncio.sleep(1_000)
            return await keep(*given, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MovePacking, "pack", stuck)
            story.cut.clear()
            facts = story.machines["w1"].journal
            await until(story, lambda: b'"stopping":true' in (facts.fact("moves/out/web") or b""))
            await story.kill_agent("w1", power=False)
        story.start_agent("w1")
        await until(story, lambda: not story.is_moving())
        await asyncio.sleep(20)
        assert story.running() == {} and held(story, "w2")

    play(scene)


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_orders_at_the_source_are_carried_out_until_it_hands_over(action: str) -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        assert (await ordered(story, "w1", action)).outcome == "done"
        assert story.running() == ({} if action == "stop" else {"w1": 1})
        story.cut.clear()
        await until(story, lambda: not story.is_moving())
        await asyncio.sleep(20)
        assert story.running() == ({} if action == "stop" else {"w2": 1})
        refused = await ordered(story, "w1", action)
        assert (refused.outcome, refused.code) == ("failed", "not_found") and story.running().keys() <= {"w2"}

    play(scene)


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_orders_at_the_target_are_refused_until_the_data_is_there(action: str) -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        story.slow_s = 2.0
        story.cut.clear()
        refused = await ordered(story, "w2", action)
        assert (refused.outcome, refused.code) == ("failed", "not_found")
        await runs(story, w2=1)

    play(scene)


def test_a_backup_at_the_source_goes_beside_the_copy() -> None:
    async def scene(story: MoveStory) -> None:
        await begun(story, "w2")
        assert (await ordered(story, "w1", "backup")).outcome == "done"
        story.cut.clear()
        await runs(story, w2=1)
        await asyncio.sleep(10)
        story.check_left()

    play(scene)


def test_a_checkpoint_that_is_restored_at_the_source_moves() -> None:
    async def scene(story: MoveStory) -> None:
        source = story.machines["w1"]
        source.storage.contents["web"][PAGE] = b"7"
        await story.deploy()
        await until(story, lambda: bool(source.storage.checkpoints()) and story.running() == {"w1": 1})
        source.storage.contents["web"][PAGE] = b"8"
        await begun(story, "w2")
        (one,) = source.storage.checkpoints()
        done = await ordered(story, "w1", "restore-checkpoint", "data.web", checkpoint=one.id)
        assert done.outcome == "done" and source.page == 7, done
        story.cut.clear()
        await runs(story, w2=1)
        assert story.machines["w2"].page == 7

    play(scene, is_witnessed=False)


# ---- a lost journal


@pytest.mark.parametrize("also_acceptance", [False, True])
def test_a_node_that_lost_its_journal_knows_the_data_that_moved_to_it(also_acceptance: bool) -> None:
    """By the passports beside the data."""

    async def scene(story: MoveStory) -> None:
        move(story, "w2")
        await runs(story, w2=1)
        await asyncio.sleep(10)
        machine = story.machines["w2"]
        await story.kill_agent("w2", power=True)
        machine.journal = MemoryJournal()
        machine.acceptance = MemoryAcceptance() if also_acceptance else machine.acceptance
        story.start_agent("w2")
        await runs(story, w2=1)
        await asyncio.sleep(10)
        assert story.running() == {"w2": 1} and "move_waits" not in findings(story)["w2"]

    play(scene)


# ---- our own mistakes


def test_a_mistake_of_ours_is_reported_and_the_move_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(story: MoveStory) -> None:
        keep, left = MovePacking.pack, [KeyError("a mistake"), KeyError("another")]

        async def pack(self: Any, *given: Any, **named: Any) -> Any:
            if left:
                raise left.pop()
            return await keep(self, *given, **named)

        monkeypatch.setattr(MovePacking, "pack", pack)
        move(story, "w2")
        await until(story, lambda: "internal_error" in findings(story)["w1"])
        await runs(story, w2=1)
        await asyncio.sleep(10)
        assert "internal_error" not in findings(story)["w1"]

    play(scene)


# ---- a source that was put back


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("after_s", [0.5, 30.0])
def test_a_source_whose_state_was_put_back_does_not_run_what_it_handed_over(power: bool, after_s: float) -> None:
    """A snapshot of the machine from before the move (X05): the other node runs the service, and goes on alone."""

    async def scene(story: MoveStory) -> None:
        machine = story.machines["w1"]
        journal, acceptance = deepcopy(machine.journal), deepcopy(machine.acceptance)
        move(story, "w2")
        await runs(story, w2=1)
        await asyncio.sleep(after_s)
        await story.kill_agent("w1", power=power)
        machine.journal, machine.acceptance = journal, acceptance
        story.start_agent("w1")
        await asyncio.sleep(30)
        assert story.running() == {"w2": 1}, story.trace[-5:]
        if not power:  # it ran until the hub showed the move: without a boot nothing waits for the hub
            story.broken.clear()
        assert "move_waits" not in findings(story)["w1"]
        story.check_left()
        move(story, "w1", aside=True)
        await runs(story, w1=1)

    play(scene, is_witnessed=False)


def test_a_source_that_was_put_back_before_it_signed_finds_what_it_signed() -> None:
    async def scene(story: MoveStory) -> None:
        machine = story.machines["w1"]
        await begun(story, "w2")
        journal, acceptance = deepcopy(machine.journal), deepcopy(machine.acceptance)
        story.cut.clear()
        await until(story, lambda: b'"stopping":true' in (machine.journal.fact("moves/out/web") or b""))
        story.cut.add("w2")
        before = set(story.mailbox_objects.found)
        await until(story, lambda: any("/receipts/" in key for key in story.mailbox_objects.found.keys() - before))
        assert story.running() == {} and story.is_moving()
        await story.kill_agent("w1", power=True)
        machine.journal, machine.acceptance = journal, acceptance
        story.start_agent("w1")
        await asyncio.sleep(20)
        assert story.running() == {}
        story.cut.clear()
        await runs(story, w2=1)
        await asyncio.sleep(30)
        assert story.running() == {"w2": 1}
        story.check_left()

    play(scene)


def test_a_target_that_was_put_back_says_that_it_lost_the_data() -> None:
    """A snapshot of the whole machine: its disk is older than the move, too."""

    async def scene(story: MoveStory) -> None:
        machine = story.machines["w2"]
        journal, acceptance = deepcopy(machine.journal), deepcopy(machine.acceptance)
        move(story, "w2")
        await runs(story, w2=1)
        await asyncio.sleep(10)
        await story.kill_agent("w2", power=True)
        machine.journal, machine.acceptance = journal, acceptance
        machine.storage.contents.pop("web")
        story.start_agent("w2")
        await until(story, lambda: "move_waits" in findings(story)["w2"])
        assert "retired restore web -n w1" in findings(story)["w2"]["move_waits"]
        assert story.running() == {}, "w1 signed that it does not run it"

    play(scene, is_witnessed=False)
