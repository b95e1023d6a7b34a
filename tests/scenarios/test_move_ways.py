"""Hub and agents together: a move goes directly from node to node, or through the hub, and changes between them without
losing or repeating a finished step (issue 16)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.move_lines.memory import MemoryLines, MemoryNet
from holdfast.errors import Unreachable
from holdfast.model import backup_key
from tests.fleets.agents import Machine, until
from tests.fleets.build import small_fleet
from tests.fleets.desks import Rig, key_of
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_moves import Moving, notes
from tests.scenarios.test_moving import NODES

ADDRESS = {node: f"100.64.0.{number}" for number, node in enumerate(NODES, 1)}
AWAY = Unreachable("the hub is away", remedy="wait")
FILES = 6

PeerCalls = Literal["declared", "relay", "off"]


class Direct(Moving):
    """Nodes with addresses; every one of them can reach every other, unless the net is cut."""

    def __init__(self, loop: VirtualLoop, peer_calls: PeerCalls) -> None:
        fleet = small_fleet({"web": notes()}, NODES)
        joined = {
            name: replace(node, key=key_of(name).line, address=ADDRESS[name], peer_calls=peer_calls)
            for name, node in fleet.nodes.items()
        }
        self.rig = Rig(loop, replace(fleet, nodes=joined))
        self.machines = {name: Machine(self.rig, name) for name in NODES}
        self.agents, self.tasks, self.gone_s = {}, {}, None
        self.passage = MemoryTarget()
        self.both_s: float | None = None
        self.net = MemoryNet()
        self.notes = set[str]()
        for name, machine in self.machines.items():
            lines = MemoryLines(key_of(name).line, self.net)
            machine.backups = replace(machine.backups, passage=self.passage, lines=lines)

    def here(self, node: str) -> dict[str, bytes]:
        found = self.machines[node].backups.lines.here
        assert isinstance(found, MemoryTarget)
        return found.objects

    def moves(self, node: str) -> tuple[Any, ...]:
        found = [one.section() for one in self.machines[node].built.keepers.reports]
        return next(one.moves for one in found if hasattr(one, "moves"))

    def shipped(self, act: Callable[[int], None]) -> None:
        """`act` is called before each file that w1 ships, with how many it has shipped."""
        count = 0

        def gate() -> asyncio.Future[None]:
            nonlocal count
            act(count)
            count += 1
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        self.machines["w1"].backups.archiver.gate = gate  # type: ignore[attr-defined]

    async def note(self) -> None:
        while True:
            self.notes |= {one.note for one in self.moves("w1")}
            await asyncio.sleep(0.02)

    def packs(self, objects: dict[str, bytes]) -> set[str]:
        return {key for key in objects if backup_key.parse(key).kind == "packs"}

    def words(self, objects: dict[str, bytes]) -> set[int]:
        return {key.sequence for key in map(backup_key.parse, objects) if key.kind == "receipts"}


def scene(story: Callable[[Direct], Coroutine[Any, Any, None]], peer_calls: PeerCalls = "declared") -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Direct(loop, peer_calls)
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await made.runs_on(w1=1)
        pages = {"book/": b"", **{f"book/page-{number}": b"text %d" % number for number in range(FILES - 1)}}
        made.machines["w1"].storage.contents["web"] = pages
        await asyncio.sleep(30)
        watching = [asyncio.ensure_future(made.watch_two()), asyncio.ensure_future(made.note())]
        await story(made)
        assert made.both_s is None, "two copies ran at once"
        for task in (*watching, hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(*watching, hub, *made.tasks.values(), return_exceptions=True)

    run(main)


async def arrived(made: Direct) -> None:
    await made.runs_on(w2=1)
    assert made.machines["w2"].storage.contents["web"] == made.machines["w1"].storage.contents["web"]


def test_between_two_nodes_that_reach_each_other_no_data_goes_through_the_hub() -> None:
    async def story(made: Direct) -> None:
        made.move("w2")
        await arrived(made)
        assert not made.packs(made.passage.objects)
        assert any(note.endswith(", directly") for note in made.notes), made.notes
        assert not any("through the hub" in note for note in made.notes)
        callers = {(caller, address) for caller, address in made.net.calls}
        assert callers == {(key_of("w1").line, ADDRESS["w2"])}, "I-15: only the pair of a declared move"

    scene(story)


def test_when_the_move_is_over_the_door_is_closed_and_the_directory_empty() -> None:
    async def story(made: Direct) -> None:
        assert made.net.doors == {}
        made.move("w2")
        await until(made.rig, lambda: ADDRESS["w2"] in made.net.doors)
        assert made.net.doors.keys() == {ADDRESS["w2"]}, "the source does not listen"
        await arrived(made)
        assert made.here("w2")
        await until(made.rig, lambda: not made.net.doors and not made.here("w2"), 90)
        await asyncio.sleep(300)
        assert made.net.doors == {} and made.here("w1") == made.here("w2") == {}
        assert all(not one.step for one in made.moves("w1")), "the source knows that it was taken"

    scene(story)


def test_nodes_that_do_not_reach_each_other_move_through_the_hub() -> None:
    async def story(made: Direct) -> None:
        made.net.is_cut = True
        made.move("w2")
        await arrived(made)
        assert made.packs(made.passage.objects) and not made.packs(made.here("w2"))
        assert any(note.endswith(", through the hub") for note in made.notes), made.notes

    scene(story)


def test_a_line_that_is_cut_in_the_middle_is_left_for_the_hub_and_taken_again() -> None:
    async def story(made: Direct) -> None:
        def act(shipped: int) -> None:
            made.net.is_cut = 2 <= shipped < 4

        real = made.machines["w1"].backups.archiver

        async def slowly() -> None:
            await asyncio.sleep(15)

        made.shipped(act)
        gate = real.gate  # type: ignore[attr-defined]
        real.gate = lambda: asyncio.ensure_future(_after(gate, slowly))  # type: ignore[attr-defined]
        made.move("w2")
        await until(made.rig, lambda: len(made.packs(made.passage.objects) | made.packs(made.here("w2"))) == FILES, 300)
        hub, direct = made.packs(made.passage.objects), made.packs(made.here("w2"))
        assert (len(hub), len(direct)) == (2, 4) and not hub & direct, "no object goes twice"
        await arrived(made)
        assert any("directly" in note for note in made.notes) and any("through the hub" in note for note in made.notes)

    scene(story)


async def _after(gate: Callable[[], asyncio.Future[None]], pause: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await pause()
    await gate()


def test_without_the_hub_s_mailbox_a_move_goes_on_directly() -> None:
    async def story(made: Direct) -> None:
        made.shipped(lambda shipped: setattr(made.passage, "trouble", AWAY))
        made.move("w2")
        await arrived(made)
        await until(made.rig, lambda: all(one.handed_over and not one.step for one in made.moves("w1")))
        assert made.passage.objects == {}, "nothing reached the hub"
        await until(made.rig, lambda: not made.net.doors, 90)

    scene(story)


def test_what_the_target_said_while_no_way_was_open_reaches_the_source_through_the_hub() -> None:
    async def story(made: Direct) -> None:
        made.move("w2")
        await until(made.rig, lambda: any(one.step == "catch up" for one in made.moves("w1")))
        made.net.is_cut, made.passage.trouble = True, AWAY
        await until(made.rig, lambda: 25001 in made.words(made.here("w2")))
        await asyncio.sleep(20)
        assert await made.running() == {"w1": 1}
        made.passage.trouble = None
        await arrived(made)

    scene(story)


def test_a_target_that_starts_again_keeps_what_came_directly() -> None:
    async def story(made: Direct) -> None:
        def act(shipped: int) -> None:
            if shipped == FILES - 1:
                made.tasks["w2"].cancel()

        made.shipped(act)
        made.move("w2")
        await until(made.rig, lambda: made.tasks["w2"].done())
        before = made.packs(made.here("w2"))
        assert len(before) >= FILES - 1
        made.start("w2")
        await arrived(made)
        assert len(made.packs(made.passage.objects)) <= 1

    scene(story)


def test_what_came_of_a_move_that_is_taken_back_is_deleted() -> None:
    async def story(made: Direct) -> None:
        made.machines["w1"].backups.archiver.gate = lambda: asyncio.ensure_future(asyncio.sleep(10))  # type: ignore[attr-defined]
        made.move("w2")
        await until(made.rig, lambda: len(made.packs(made.here("w2"))) > 1)
        made.abort()
        await until(made.rig, lambda: not made.here("w2") and not made.net.doors)
        assert await made.running() == {"w1": 1}

    scene(story)


@pytest.mark.parametrize("peer_calls", ["relay", "off"])
def test_a_node_that_may_call_no_other_moves_through_the_hub(peer_calls: PeerCalls) -> None:
    async def story(made: Direct) -> None:
        opened: list[str] = []

        async def look() -> None:
            while True:
                opened.extend(made.net.doors)
                await asyncio.sleep(0.02)

        looking = asyncio.ensure_future(look())
        made.move("w2")
        await arrived(made)
        looking.cancel()
        assert opened == [] and made.packs(made.passage.objects)

    scene(story, peer_calls)
