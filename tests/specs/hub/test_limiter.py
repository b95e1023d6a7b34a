"""How often somebody may ask: bursts, then a pace; heartbeats, polls, registers apart (M-28, C-02, D-08)."""

import pytest

from holdfast.errors import Limited
from holdfast.hub.http.limiter import Buckets, Limiter, Rate, Rates, for_pace
from holdfast.model.cadence import FAST, NORMAL
from holdfast.model.principal import Principal

W1, W2 = Principal("node", "w1", "key-1"), Principal("node", "w2", "key-2")


def accepted(limiter: Limiter, heartbeat: bool, times_s: list[float], who: Principal = W1) -> list[bool]:
    found = []
    for now_s in times_s:
        try:
            limiter.check_in(who, heartbeat, now_s)
            found.append(True)
        except Limited:
            found.append(False)
    return found


def test_a_burst_and_then_one_at_a_time() -> None:
    buckets = Buckets(Rate(10.0, 3))
    for _ in range(3):
        assert buckets.wait_s("a", 100.0) == 0
        buckets.take("a", 100.0)
    assert buckets.wait_s("a", 100.0) == 10.0
    assert buckets.wait_s("a", 104.0) == 6.0
    assert buckets.wait_s("a", 110.0) == 0
    assert buckets.wait_s("b", 100.0) == 0, "everybody has a bucket of his own"


def test_whoever_takes_what_he_was_refused_waits_no_longer_for_it() -> None:
    buckets = Buckets(Rate(1.0, 2))
    for _ in range(1_000):
        buckets.take("a", 0.0)
    assert buckets.wait_s("a", 0.0) == 1.0


def test_a_quiet_time_earns_the_burst_again_and_no_more() -> None:
    buckets = Buckets(Rate(1.0, 2))
    for _ in range(2):
        buckets.take("a", 0.0)
    taken = 0
    while buckets.wait_s("a", 1_000_000.0) == 0:
        buckets.take("a", 1_000_000.0)
        taken += 1
    assert taken == 2


def test_memory_is_bounded_and_the_quietest_are_forgotten() -> None:
    buckets = Buckets(Rate(60.0, 1), keys_max=100)
    for number in range(1_000):
        buckets.take(str(number), 0.0)
    assert len(buckets) == 100
    assert buckets.wait_s("999", 0.0) > 0
    assert buckets.wait_s("0", 0.0) == 0


def test_heartbeats_burst_three_then_one_in_ten_seconds() -> None:
    limiter = Limiter(Rates())
    assert accepted(limiter, True, [0, 0.1, 0.2, 0.3, 5, 10.1, 10.2]) == [True, True, True, False, False, True, False]
    assert all(accepted(limiter, True, [100 + 30 * n for n in range(100)])), "the cadence itself is never limited"
    assert accepted(limiter, True, [0.3], W2) == [True], "another node has its own"


def test_a_limited_heartbeat_withholds_no_poll() -> None:
    """C-02: orders come with polls."""
    limiter = Limiter(Rates())
    accepted(limiter, True, [0.0] * 50)
    assert accepted(limiter, True, [0.5]) == [False]
    assert all(accepted(limiter, False, [1.0 + n / 5 for n in range(200)]))


def test_only_accepted_registers_count() -> None:
    """D-08: a refused join may be repeated at once; after an accepted one the next waits its minute."""
    limiter = Limiter(Rates())
    for _ in range(20):
        limiter.register(W1, 0.0)
    for _ in range(3):
        limiter.registered(W1, 0.0)
    with pytest.raises(Limited) as refused:
        limiter.register(W1, 1.0)
    assert refused.value.code == "resource_exhausted"
    assert refused.value.retry_after_s == 59.0
    limiter.register(W1, 60.0)


def test_requests_are_counted_by_identity_and_people_may_ask_more() -> None:
    limiter = Limiter(Rates())

    def asked(who: Principal, times: int) -> int:
        count = 0
        for _ in range(times):
            try:
                limiter.request(who, 0.0)
                count += 1
            except Limited:
                continue
        return count

    assert asked(W1, 500) == 100
    assert asked(Principal("node", "w1", "another key"), 10) == 0, "a second key of w1 is still w1"
    assert asked(W2, 500) == 100
    assert asked(Principal("operator", "alice"), 5_000) == 1_000


def test_strangers_are_counted_by_address() -> None:
    limiter = Limiter(Rates())
    for _ in range(60):
        limiter.stranger("192.0.2.1", 0.0)
        limiter.was_stranger("192.0.2.1", 0.0)
    with pytest.raises(Limited):
        limiter.stranger("192.0.2.1", 0.0)
    limiter.stranger("192.0.2.2", 0.0)
    limiter.stranger("192.0.2.1", 0.06)


def test_the_pace_of_heartbeats_is_a_third_of_the_cadence() -> None:
    assert for_pace(NORMAL) == Rates()
    assert for_pace(FAST).register == Rate(2.0, 3)
    fast = Limiter(for_pace(FAST))
    assert all(accepted(fast, True, [n * 1.0 for n in range(100)]))
    assert accepted(fast, True, [200, 200, 200, 200]) == [True, True, True, False]
