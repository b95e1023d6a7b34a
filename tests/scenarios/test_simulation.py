"""Whole fleets in virtual time under seeded faults (issue 3, item 9): one seed is one history, and promises hold.

I-01, I-02, I-27, I-30, I-31, I-36, W14: checked at the end of every simulated day by `Simulation.promises`.
"""

import pytest

from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.acceptance.accept import Accepting
from holdfast.hub.nodes.liveness import Liveness
from tests.fleets.counts import SOAK
from tests.fleets.simulation import day
from tests.fleets.weather import STORM, Weather

SEEDS = range(1, 101 if SOAK else 4)
HOURS = 24 if SOAK else 1
BREEZE = Weather(delay_s=0.05, request_lost=0.01, answer_lost=0.01, duplicated=0.01)


def test_the_same_seed_is_the_same_history() -> None:
    hours = 2 if SOAK else 1
    once, again, other = day(5, hours=hours), day(5, hours=hours), day(6, hours=hours)
    assert once == again
    assert once.fingerprint != other.fingerprint


@pytest.mark.parametrize("seed", SEEDS)
def test_promises_hold_after_a_stormy_day(seed: int) -> None:
    found = day(seed, hours=6)
    assert found.broken == ()
    assert found.lost > 100 and found.doubled > 100, "there was no storm"
    assert found.revisions > 5 and found.purges > 3, "nobody did anything"


@pytest.mark.timeout(3600)
def test_a_day_of_fifty_agents() -> None:
    """144 events: in 24 hours with `make soak`, in one hour with `make test`."""
    found = day(12, nodes=50, hours=HOURS, weather=BREEZE, every_s=HOURS * 25)
    assert found.broken == ()
    assert found.revisions > 10


# ---- the simulation itself bites: each weakened product breaks a promise


def test_a_purge_that_takes_more_than_was_ordered_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """I-02: what no order names is still there."""
    whole = MemoryStorage.dispose

    def greedy(self, proof):  # type: ignore[no-untyped-def]
        whole(self, proof)
        self.contents.pop("precious", None)

    monkeypatch.setattr(MemoryStorage, "dispose", greedy)
    assert any("lost data" in text for text in day(1, hours=2).broken)


def test_an_agent_that_never_follows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(self, answer):  # type: ignore[no-untyped-def]
        return False

    monkeypatch.setattr(Accepting, "_follow", deaf)
    assert any("the fleet at" in text for text in day(1, hours=1).broken)


def test_a_hub_that_says_it_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """I-30: an alarm per silence, not two."""
    whole = Liveness._alert

    def twice(self, member, follows, since_s):  # type: ignore[no-untyped-def]
        alert = whole(self, member, follows, since_s)
        if alert is not None and alert.level == "alarm":
            self._alerts.write("the same once more", [alert], {})
        return alert

    monkeypatch.setattr(Liveness, "_alert", twice)
    assert any("take turns" in text for text in day(2, hours=3, weather=STORM).broken)
