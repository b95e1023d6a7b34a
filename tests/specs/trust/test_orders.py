"""S07, I-03, H-33, W16: an order is believed exactly as it was signed, here, now, by enough of the right people."""

import time

import pytest

from holdfast.model.order import ACTIONS
from holdfast.trust import orders
from tests.fleets import order_suite
from tests.fleets.orders import ARGUMENTS, FLEET, GOOD, NODE, NOW_S, TRUST, Case, outcome, purge, sound, spoiled

SPOILED = tuple(spoiled())


def test_of_more_than_five_hundred_spoiled_orders_none_is_verified_s07() -> None:
    assert len(SPOILED) >= 500 and len({(c.name, c.order, c.now_s) for c in SPOILED}) == len(SPOILED)
    assert list(order_suite.verifying(orders, SPOILED)) == []


@pytest.mark.parametrize("case", list(sound()), ids=lambda case: case.name)
def test_a_sound_order_is_verified(case: Case) -> None:
    assert outcome(orders.verify, case) == "verified"


def test_the_untouched_order_is_verified_with_its_signers_and_arguments_i_03() -> None:
    proof = orders.verify(GOOD, FLEET, NODE, TRUST, NOW_S)
    assert proof.order == purge() and proof.arguments == {"reason": "moved away"} and proof.grade == "destroy"
    assert sorted(signer.operator for signer in proof.signers) == ["ann", "bob"]
    assert ARGUMENTS == b'{"reason":"moved away"}'


def test_verifying_takes_less_than_fifty_milliseconds_s07() -> None:
    orders.verify(GOOD, FLEET, NODE, TRUST, NOW_S)  # imports
    took_s = []
    for _ in range(20):
        begun_s = time.perf_counter()
        orders.verify(GOOD, FLEET, NODE, TRUST, NOW_S)
        took_s.append(time.perf_counter() - begun_s)
    assert sorted(took_s)[10] < 0.050


def test_every_refusal_has_a_remedy() -> None:
    for case in SPOILED:
        try:
            orders.verify(case.order, case.fleet, case.node, case.trust, case.now_s)
        except Exception as refused:
            assert getattr(refused, "remedy", ""), case.name


def test_a_counter_is_good_once_within_its_window_w16() -> None:
    assert list(order_suite.replaying(orders)) == []


def test_a_hub_may_ask_for_a_closed_list_and_twice_an_hour_at_most() -> None:
    """design.md §3; whatever else it asks for needs a signature."""
    assert [name for name, rule in ACTIONS.items() if rule.hub_may] == [
        "ping",
        "check-in",
        "renew-certificate",
        "backup",
        "verify",
        "drill",
    ]
    assert list(order_suite.hub_asking(orders)) == []


def test_only_what_a_node_would_run_can_be_drafted() -> None:
    assert list(order_suite.drafting(orders)) == []
