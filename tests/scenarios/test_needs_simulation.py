"""Random stories of needs: cuts, deaths, revisions. No credential that a container can use is ever revoked, and every
unused one is, in the end (I-10, I-11)."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.agent.needs import books
from holdfast.model.fleet import Service
from tests.fleets.counts import SOAK
from tests.fleets.needing import needing
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_needs import NEED, NODES, Scene

SEEDS = range(100 if SOAK else 6)
EVENTS = 40
LINES = [(one, other) for one in ("w1", "w2") for other in ("p1",)]


class Story:
    def __init__(self, made: Scene, seed: int) -> None:
        self.made = made
        self.chance = random.Random(seed)
        self.wrong: list[str] = []
        handler = made.net.handler
        revoke: Any = handler.revoke

        async def watched(to: Any, by: Any) -> None:
            for node in ("w1", "w2"):
                if made.values(node).get("user") == to.login:
                    self.wrong.append(f"{to.login} is in use on {node}")
            await revoke(to, by)

        handler.revoke = watched  # type: ignore[method-assign]

    async def event(self) -> None:
        made, chance = self.made, self.chance
        kind = chance.choice(("apply", "apply", "cut", "heal", "die", "wait", "wait"))
        if kind == "apply":
            self.apply(self.services())
        elif kind == "cut":
            made.net.cuts.add(chance.choice(LINES))
        elif kind == "heal":
            made.net.cuts.clear()
        elif kind == "die":
            node = chance.choice(NODES)
            await made.kill(node)
            await asyncio.sleep(chance.uniform(0, 60))
            made.start(node)
        await asyncio.sleep(chance.uniform(0, 40))

    def services(self) -> Mapping[str, Service]:
        node, chance = self.chance.choice(("w1", "w2")), self.chance.random()
        return {"web": needing(*((NEED,) if chance < 0.7 else ()), node=node)}

    def apply(self, services: Mapping[str, Service]) -> None:
        try:
            self.made.apply(dict(services))
        except AssertionError:  # nothing changes
            return


def tell(seed: int) -> Story:
    async def main(loop: VirtualLoop) -> Story:
        made = Scene(loop)
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await asyncio.sleep(5)
        story = Story(made, seed)
        for _ in range(EVENTS):
            await story.event()
        made.net.cuts.clear()
        story.apply({"web": needing(NEED, node="w1")})
        await asyncio.sleep(1500)
        assert made.state("w1") == "fulfilled", f"seed {seed}"
        assert [(node, state) for node, _, state in made.grants()] == [("w1", "held")], f"seed {seed}: {made.grants()}"
        assert list(made.net.handler.logins) == [made.values("w1")["user"]], f"seed {seed}: no login but that one"
        for task in (hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(hub, *made.tasks.values(), return_exceptions=True)
        return story

    return run(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_in_use_is_revoked_and_nothing_unused_stays(seed: int) -> None:
    assert tell(seed).wrong == []


def test_a_node_that_tells_nothing_of_what_it_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round: then something in use is revoked, and the story sees it."""
    monkeypatch.setattr(books.Books, "handles", lambda self, provider: ())
    monkeypatch.setattr("holdfast.reconcile.grants.judge", lambda book, grant, said, is_sure: "absent")
    with pytest.raises(AssertionError):
        assert all(tell(seed).wrong == [] for seed in range(3))
