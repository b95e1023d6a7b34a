"""A figure is worse when it is worse by more than a tenth and by more than its spread."""

import pytest

from bench.compare import Compared, table

STEADY = (1.0, 1.0, 1.0, 1.0, 1.01, 0.99, 1.0)


@pytest.mark.parametrize(
    ("new", "is_worse"),
    [
        (STEADY, False),
        (tuple(value * 1.09 for value in STEADY), False),
        (tuple(value * 1.2 for value in STEADY), True),
        (tuple(value * 0.5 for value in STEADY), False),
        ((0.5, 0.6, 1.0, 1.2, 1.9, 2.0, 2.1), False),  # a fifth more, but it swings by more than that
    ],
)
def test_worse_is_more_than_a_tenth_and_more_than_the_spread(new: tuple[float, ...], is_worse: bool) -> None:
    assert Compared("a figure", STEADY, new).is_worse is is_worse


def test_the_table_shows_both_medians_the_ratio_and_the_verdict() -> None:
    shown = table([Compared("a figure", STEADY, tuple(value * 2 for value in STEADY))])
    assert "| a figure | 1 | 2 | 0 | 2.000 | WORSE |" in shown
