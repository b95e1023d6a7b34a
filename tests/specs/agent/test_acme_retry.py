"""When an authority that refused is asked again: soon if it was away, seldom if it said no, else when it says so."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.traffic.certificates.acme_retry import AcmeRetry
from holdfast.errors import Failed, HoldfastError, Limited, TryLater
from holdfast.model.fleet import Acme

ACME = Acme("https://ca.example.test/directory", terms_agreed=True)
OTHER = Acme("https://other.example.test/directory", terms_agreed=True)
GONE = TryLater("gone", remedy="wait")
REFUSED = Failed("no", remedy="mend it")


def pauses(troubles: list[HoldfastError]) -> list[float]:
    patience, now_s, found = AcmeRetry(), 0.0, []
    for trouble in troubles:
        patience.refused("a", ACME, trouble, now_s)
        waits = patience.waits("a", ACME, now_s)
        assert waits is not None and waits.trouble is trouble
        assert patience.waits("a", ACME, waits.next_s) is None
        found.append(waits.next_s - now_s)
        now_s = waits.next_s
    return found


def test_who_is_not_there_is_asked_soon_and_then_less_often() -> None:
    assert pauses([GONE] * 9) == [2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_who_refused_is_asked_at_most_five_times_in_the_first_hour() -> None:
    asked = pauses([REFUSED] * 7)
    assert asked == [120, 240, 480, 960, 1920, 3600, 3600]


def test_another_kind_of_trouble_begins_anew() -> None:
    assert pauses([REFUSED, REFUSED, GONE, GONE, REFUSED]) == [120, 240, 2, 4, 120]


def test_what_the_authority_asks_for_is_given_within_a_day() -> None:
    limited = [Limited("often", remedy="wait", retry_after_s=seconds) for seconds in (7200.0, 1.0, 10_000_000.0)]
    assert pauses(list(limited)) == [7200, 4, 86_400]


def test_other_settings_are_another_question() -> None:
    patience = AcmeRetry()
    patience.refused("a", ACME, REFUSED, 0.0)
    assert patience.waits("a", OTHER, 0.0) is None and patience.waits("b", ACME, 0.0) is None
    patience.refused("a", OTHER, REFUSED, 0.0)
    waits = patience.waits("a", OTHER, 0.0)
    assert waits is not None and waits.pause_s == 120
    patience.forget("a")
    assert patience.waits("a", OTHER, 0.0) is None


@given(st.lists(st.sampled_from([GONE, REFUSED, Limited("often", remedy="wait", retry_after_s=50.0)]), max_size=60))
def test_nobody_is_asked_in_a_hurry_or_forgotten(troubles: list[HoldfastError]) -> None:
    assert all(2 <= pause <= 86_400 for pause in pauses(troubles))
