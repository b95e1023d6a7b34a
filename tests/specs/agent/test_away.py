"""M-74: an agent comes soon after its hub is there again; M-52, I-36: it sends no request more often for that."""

import asyncio
from itertools import pairwise

import pytest

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.agent.backoff import Backoff
from holdfast.agent.link import away
from holdfast.agent.link.away import COME_S, LOOK_S
from tests.fleets.virtual import VirtualLoop, run

SOON_S = LOOK_S * 1.25 + COME_S


class Line:
    """`there_s`: from when on something listens where the hub should be."""

    def __init__(self, loop: VirtualLoop, there_s: float, takes_s: float = 0.0) -> None:
        self.loop, self.there_s, self.takes_s = loop, there_s, takes_s
        self.looks: list[float] = []

    async def is_there(self) -> bool:
        self.looks.append(self.loop.time())
        await asyncio.sleep(self.takes_s)
        return self.loop.time() >= self.there_s


def waited(pause_s: float, there_s: float, takes_s: float = 0.0, seed: int = 0) -> tuple[float, list[float]]:
    found: list[tuple[float, list[float]]] = []

    async def main(loop: VirtualLoop) -> None:
        line, began_s = Line(loop, there_s, takes_s), loop.time()
        await away.wait(pause_s, line, Backoff(SeededRandom(f"{seed}")))  # type: ignore[arg-type]
        found.append((loop.time() - began_s, line.looks))

    run(main)
    return found[0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("there_s", [3.0, 7.7, 31.0, 52.0])
def test_a_hub_that_is_back_is_asked_within_four_seconds(there_s: float, seed: int) -> None:
    took_s, _ = waited(60.0, there_s, seed=seed)
    assert there_s <= took_s <= min(there_s + SOON_S, 60.0) and SOON_S <= 4.0


def test_nodes_come_spread_over_the_time() -> None:
    found = [waited(60.0, 30.0, seed=seed) for seed in range(40)]
    times = sorted(took_s for took_s, _ in found)
    assert times[-1] - times[0] > 2.0 and len({round(one, 1) for one in times}) > 15
    since_s = sorted(took_s - looks[-1] for took_s, looks in found)  # also if all looked at the same moment
    assert since_s[-1] - since_s[0] > 0.7 * COME_S


def test_a_hub_that_stays_away_is_looked_for_and_not_asked_sooner() -> None:
    took_s, looks = waited(60.0, 1_000.0)
    assert took_s == pytest.approx(60.0) and 20 <= len(looks) <= 30
    assert all(after - before >= LOOK_S for before, after in pairwise(looks))


def test_a_hub_that_is_there_and_gives_no_good_answer_is_not_asked_sooner() -> None:
    took_s, looks = waited(60.0, 0.0)
    assert took_s == pytest.approx(60.0) and len(looks) == 1


def test_a_short_pause_is_waited_out() -> None:
    took_s, looks = waited(1.2, 1_000.0)
    assert took_s == pytest.approx(1.2) and looks == []


def test_a_line_that_swallows_everything_lengthens_the_pause_by_one_look_at_most() -> None:
    took_s, looks = waited(60.0, 1_000.0, takes_s=2.0)
    assert 60.0 <= took_s <= 62.0 and len(looks) >= 12
