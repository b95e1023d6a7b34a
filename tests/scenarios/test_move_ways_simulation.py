"""Moves under seeded faults as in test_moves_simulation.py, with the direct way between nodes: it is open for some
seconds and cut for others, so that the two ways of a move change in every part of it (issue 16)."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.move_lines.memory import MemoryLines, MemoryNet
from holdfast.model import backup_key
from holdfast.model.fleet import Fleet, Service
from tests.fleets import move_stories
from tests.fleets.counts import SOAK
from tests.fleets.desks import key_of
from tests.fleets.move_stories import MoveStory, StoryMachine, keyed

SEEDS = range(1, 301 if SOAK else 16)
PARTS = 5
CUT_S = 3.0
ADDRESS = {node: f"100.64.0.{number}" for number, node in enumerate(move_stories.NODES, 1)}


class StoryNet(MemoryNet):
    """Cut in a third of the time, while the story is stormy."""

    def __init__(self, story: MoveStory) -> None:
        super().__init__()
        self._story = story
        self.seed = story.random.random()

    @property
    def is_cut(self) -> bool:
        number = int(self._story.loop.time() / CUT_S)
        return self._story.is_stormy and sha256(f"{self.seed} {number}".encode()).digest()[0] % 3 == 0

    @is_cut.setter
    def is_cut(self, value: bool) -> None:
        """It is as the story says."""


@pytest.fixture
def nets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StoryNet]]:
    found: list[StoryNet] = []
    made_machine = StoryMachine.__init__

    def placed(services: dict[str, Service]) -> Fleet:
        fleet = keyed(services)
        nodes = {name: replace(node, address=ADDRESS[name]) for name, node in fleet.nodes.items()}
        return replace(fleet, nodes=nodes)

    def made(self: StoryMachine, story: MoveStory, node: str) -> None:
        made_machine(self, story, node)
        if not found or found[-1]._story is not story:
            found.append(StoryNet(story))
        self.backups = replace(self.backups, lines=MemoryLines(key_of(node).line, found[-1]))

    monkeypatch.setattr(move_stories, "keyed", placed)
    monkeypatch.setattr(StoryMachine, "__init__", made)
    yield found


@pytest.mark.parametrize("part", range(PARTS))
def test_one_copy_runs_and_nothing_is_lost_on_two_ways(part: int, nets: list[StoryNet]) -> None:
    stories = {seed: move_stories.tell(seed) for seed in SEEDS if seed % PARTS == part}
    broken: dict[int, Any] = {
        seed: (story.broken, story.trace[-40:]) for seed, story in stories.items() if story.broken
    }
    assert broken == {}
    assert len(nets) == len(stories) and sum(len(net.calls) for net in nets) > 20 * len(stories), "almost no calls"
    for net in nets:
        peers = {(caller, address) for caller, address in net.calls}
        assert all(key_of(node).line != caller or ADDRESS[node] != to for node in ADDRESS for caller, to in peers)


def test_a_target_that_looks_at_one_place_only_is_found(nets: list[StoryNet], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the source calls, it does not look for keys and packs at the hub."""
    monkeypatch.setattr(backup_key, "is_of_receipts", lambda prefix: True)
    assert any(move_stories.tell(seed).broken for seed in (10, *SEEDS))
