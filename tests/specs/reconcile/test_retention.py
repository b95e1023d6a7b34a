"""Which backups stay: by count and by days, weeks and months; the newest proven one always does (I-32, W13)."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.backup import Receipt, Stored
from holdfast.model.fleet import Retain
from holdfast.model.storage_target import counts
from holdfast.reconcile.retention import HUB_LAST, Held, Policy, kept, unneeded

START = int(datetime(2026, 3, 2, 3, 0, tzinfo=UTC).timestamp())  # a Monday
DAY_S = 86_400


def daily(count: int, proven: frozenset[int] = frozenset(), cause: str = "schedule") -> list[Held]:
    return [
        Held(f"b{n}", n, START + (n - 1) * DAY_S, cause, n in proven)  # type: ignore[arg-type]
        for n in range(1, count + 1)
    ]


def ids(held: list[Held], policy: Policy) -> set[str]:
    return set(kept(held, policy))


def test_the_newest_ones_stay_by_their_count() -> None:
    assert ids(daily(10), Policy(last=3)) == {"b8", "b9", "b10"}
    assert ids(daily(2), Policy(last=3)) == {"b1", "b2"} and ids([], Policy(last=3)) == set()


def test_one_of_each_day_week_and_month_stays() -> None:
    twice = [*daily(3), Held("noon", 4, START + 2 * DAY_S + 9 * 3600, "schedule")]
    assert ids(twice, Policy(daily=2)) == {"noon", "b2"}, "the newest of its day, of two days"
    assert ids(daily(22), Policy(weekly=3)) == {"b22", "b21", "b14"}, "the weeks end on Sundays"
    assert ids(daily(65), Policy(monthly=3)) == {"b65", "b60", "b30"}, "March has 30 days from the second on"
    assert ids(daily(65), Policy(last=2, monthly=2)) == {"b65", "b64", "b60"}


def test_days_without_a_backup_use_up_no_count() -> None:
    sparse = [Held("old", 1, START, "schedule"), Held("new", 2, START + 90 * DAY_S, "schedule")]
    assert ids(sparse, Policy(daily=2)) == {"old", "new"}


def test_the_newest_and_the_newest_proven_one_stay_whatever_the_policy_says() -> None:
    assert ids(daily(10, proven=frozenset({2, 4})), Policy()) == {"b10", "b4"}
    assert kept(daily(10, proven=frozenset({4})), Policy(last=1))["b4"] == "the newest that is proven"


def test_what_a_hub_brings_forward_displaces_no_other_backup_w13() -> None:
    flood = [Held(f"h{n}", 100 + n, START + 50 * DAY_S + n, "hub") for n in range(50)]
    found = ids([*daily(3), *flood], Policy(last=3))
    assert {"b1", "b2", "b3"} <= found and len(found) == 3 + HUB_LAST
    ordered = [Held(f"o{n}", 100 + n, START + 50 * DAY_S + n, "order") for n in range(50)]
    assert {"b1", "b2", "b3"} <= ids([*daily(3), *ordered], Policy(last=3))


def test_the_order_is_that_of_the_sequence_and_not_of_the_clock() -> None:
    """A clock that was ten years ahead for a day, and one that was before 1970."""
    wrong = [*daily(3), Held("ahead", 4, START + 3650 * DAY_S, "schedule"), Held("b5", 5, -5, "schedule")]
    assert ids(wrong, Policy(last=2)) == {"ahead", "b5"}
    assert ids([*wrong, Held("b6", 6, 10**18, "schedule")], Policy(last=1)) == {"b6"}


held = st.builds(
    Held,
    st.text("abcdef", min_size=4, max_size=6),
    st.integers(1, 50),
    st.integers(START, START + 400 * DAY_S),
    st.sampled_from(["schedule", "order", "hub"]),
    st.booleans(),
)
policies = st.builds(Policy, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(st.lists(held, unique_by=lambda one: one.id, max_size=30), policies)
def test_something_stays_and_more_is_kept_by_a_larger_policy(found: list[Held], policy: Policy) -> None:
    few = ids(found, policy)
    assert bool(few) == bool(found)
    proven = [one for one in found if one.proven]
    if proven:
        assert max(proven, key=lambda one: (one.sequence, one.id)).id in few
    more = Policy(policy.last + 1, policy.daily + 1, policy.weekly + 1, policy.monthly + 1)
    assert few <= ids(found, more)
    rest = [one for one in found if one.id in few]
    assert ids(rest, policy) == few, "pruning again removes nothing more"


def receipt(manifest: str, *packs: str) -> Receipt:
    stored = tuple(Stored(pack * 64, 1) for pack in packs)
    return Receipt(1, "f" * 64, "web", "w1", 1, 0, 1, 1, "schedule", Stored(manifest * 64, 1), stored, 0, 0)


def test_an_object_goes_when_no_kept_backup_names_it() -> None:
    everything = {letter * 64 for letter in "abcdef"}
    assert unneeded([receipt("a", "b", "c"), receipt("d", "c")], everything) == {"e" * 64, "f" * 64}
    assert unneeded([], everything) == everything


def test_a_table_keeps_the_newest_and_one_of_each_day_week_and_month() -> None:
    """As a fleet declares it."""
    held = daily(65)
    for retain, policy in (
        (Retain(last=2, monthly=2), Policy(last=2, monthly=2)),
        (Retain(daily=3), Policy(daily=3)),
        (Retain(weekly=3), Policy(weekly=3)),
        (5, Policy(last=5)),
    ):
        assert ids(held, Policy(*counts(retain))) == ids(held, policy)
