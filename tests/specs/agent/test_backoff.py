"""How long an agent waits before it asks again (I-36, M-52)."""

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.agent.backoff import Backoff
from holdfast.model.cadence import FAST, NORMAL, Cadence, bounded


def test_it_doubles_from_one_to_sixty_and_is_spread_upwards_only() -> None:
    pause = Backoff(SeededRandom("x"))
    waits = [pause.grow() for _ in range(10)]
    for number, wait_s in enumerate(waits):
        base_s = min(2.0**number, 60.0)
        assert base_s <= wait_s <= min(base_s * 1.25, 60.0)
    assert len(set(waits[:6])) == 6
    pause.reset()
    assert pause.grow() < 1.26


def test_what_a_hub_asks_for_is_kept_within_bounds() -> None:
    """M-28, W3, X16"""
    pause = Backoff(SeededRandom("x"))
    assert 20 <= pause.asked(20) <= 25
    assert pause.asked(-5) >= 1.0 and pause.asked(0) >= 1.0
    for asked_s in (50.0, 59.0, 60.0, 999_999.0, 1e12):
        waits = [pause.asked(asked_s) for _ in range(20)]
        assert 48 <= min(waits) <= max(waits) <= 60 and len(set(waits)) > 1, "spread, and never longer than a minute"


def test_a_pace_that_a_hub_asks_for_is_kept_within_bounds() -> None:
    """X16: nothing that a hub says makes a node silent for longer than a minute."""
    slowest = bounded(Cadence(1e9, 1e9, 1e9, 1e9, 0.0))
    assert (slowest.poll_s, slowest.heartbeat_s) == (60.0, 60.0)
    assert (bounded(NORMAL), bounded(FAST)) == (NORMAL, FAST)


def test_nodes_that_are_missed_sooner_ask_again_sooner_and_never_busily() -> None:
    """M-75: after any absence of the hub everybody has spoken again before its warm-up is over."""
    for cadence in (FAST, NORMAL):
        pause = Backoff(SeededRandom("x"))
        pause.fit(cadence.window_s)
        waits = [pause.grow() for _ in range(10)]
        assert min(waits) >= 1.0 and waits[-1] <= cadence.window_s * 2 / 3
    for said_s, longest_s in ((-1.0, 1.0), (0.0, 1.0), (1e12, 60.0)):
        pause = Backoff(SeededRandom("x"))
        pause.fit(said_s)
        assert max(pause.grow() for _ in range(10)) == longest_s
