"""When services are looked at again."""

import pytest

from holdfast.agent.services.pacing import AGAIN_S, LOOK_S, Pacing

AGAIN_AT_S = 100.0 + AGAIN_S[0]


def waiting() -> Pacing:
    pacing = Pacing()
    pacing.try_later("web", 100.0)
    return pacing


@pytest.mark.parametrize(
    ("left", "busy", "began_s", "eased"),
    [
        ((), "", AGAIN_AT_S, ["web"]),
        (("db",), "db", AGAIN_AT_S, ["web"]),
        (("web",), "", AGAIN_AT_S, []),
        ((), "web", AGAIN_AT_S, []),
        ((), "", AGAIN_AT_S - 0.01, []),
    ],
    ids=["nothing is left", "of another service", "it has work", "its rollout is under way", "it was not its turn"],
)
def test_a_service_is_eased_when_its_turn_came_and_nothing_is_left_to_do(
    left: tuple[str, ...], busy: str, began_s: float, eased: list[str]
) -> None:
    """Otherwise what it waits for is not reported any more, although it still waits."""
    assert waiting().eased(left, lambda service: service == busy, began_s) == eased


def test_a_service_whose_turn_came_during_a_pass_is_looked_at_at_once_and_one_that_was_looked_at_is_not() -> None:
    pacing = waiting()
    assert pacing.calm((), None, AGAIN_AT_S - 0.2, AGAIN_AT_S - 0.3).at_most_s == pytest.approx(0.2)
    assert pacing.calm((), None, AGAIN_AT_S + 0.2, AGAIN_AT_S - 0.3).at_most_s < 0.1
    assert pacing.calm((), None, AGAIN_AT_S + 0.2, AGAIN_AT_S).at_most_s == LOOK_S
