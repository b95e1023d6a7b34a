"""Which backups stay: by count and by days, weeks and months; the newest proven one always does (I-32, W13)."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.backup import Receipt, Stored
from holdfast.model.fleet import Retain
from holdfast.model.storage_target import counts
from holdfast.reconcile.retention import FOREIGN, HUB_LAST, Held, Policy, kept, unneeded

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


def test_months_are_those_of_the_calendar_also_in_leap_years_and_at_the_end_of_centuries() -> None:
    for year in (*range(1970, 2420, 7), 1972, 1999, 2000, 2096, 2099, 2100, 2101, 2200, 2300, 2399, 2400):
        for month in range(1, 13):
            first_s = int(datetime(year, month, 1, tzinfo=UTC).timestamp())
            days = [Held(f"{n}", n, first_s + (n - 1) * DAY_S, "schedule") for n in (0, 1, 2, 27)]
            assert ids(days, Policy(monthly=2)) == {"0", "27"}, (year, month)


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


# ---- a node that took the service over


def of(epoch: int, *numbers: int, mine: bool = True, proven: int = 0, read: int = 0) -> list[Held]:
    """Numbers of a node begin with 1 in each epoch in which another node had the service before."""
    return [
        Held(f"e{epoch}n{n}", n, START + n, "order", n == proven, n == read, epoch=epoch, mine=mine) for n in numbers
    ]


def test_the_order_is_that_of_the_epoch_before_that_of_the_number() -> None:
    held = [*of(1, *range(500, 510)), *of(2, 1, 2, 3)]
    assert ids(held, Policy(last=4)) == {"e2n1", "e2n2", "e2n3", "e1n509"}
    assert kept(held, Policy())["e2n3"] == "the newest"


def test_backups_of_the_node_before_stay_until_this_one_has_its_own_that_is_proven_and_one_that_was_read() -> None:
    """Which of them were proven, only that node knew (I-32)."""
    old = of(1, *range(500, 504), mine=False)
    every = {one.id for one in old}
    for proven, read in ((0, 0), (2, 0), (0, 2)):
        mine = of(2, 1, 2, 3, proven=proven, read=read)
        found = kept([*old, *mine], Policy(last=2))
        assert {id for id, reason in found.items() if reason == FOREIGN} == every
        assert {"e2n3", "e2n2"} <= found.keys(), "they take no place"
    assert ids([*old, *of(2, 1, 2, 3, proven=2, read=3)], Policy(last=2)) == {"e2n3", "e2n2"}
    assert ids([*old, *of(2, 1, proven=1, read=1)], Policy(last=3)) == {"e2n1", "e1n503", "e1n502"}


def test_a_proof_of_the_other_node_or_of_an_earlier_epoch_is_none() -> None:
    old = of(2, 7, 8, mine=False, proven=7, read=7)
    assert ids([*old, *of(1, 1, proven=1, read=1), *of(3, 2)], Policy(last=1)) == {"e2n7", "e2n8", "e1n1", "e3n2"}
    assert ids([*old, *of(1, 1, read=1), *of(3, 2, proven=2)], Policy(last=1)) == {"e2n7", "e2n8", "e1n1", "e3n2"}


def test_a_third_node_proves_and_reads_nothing_either() -> None:
    old = of(2, 7, mine=False)
    third = of(4, 9, mine=False, proven=9, read=9)
    for proven, read in ((3, 0), (0, 3)):
        assert "e2n7" in ids([*old, *third, *of(3, 1, 2, 3, proven=proven, read=read)], Policy(last=1))


def test_what_claims_to_be_newer_takes_no_place_from_what_this_node_signed() -> None:
    mine = of(2, 1, 2, 3, proven=3, read=3)
    for epoch in (2, 3):
        claims = of(epoch, *range(900, 950), mine=False, proven=900, read=900)
        found = kept([*claims, *mine], Policy(last=3))
        assert {"e2n1", "e2n2", "e2n3"} <= found.keys() and found["e2n3"] == "the newest"
        assert all(found[one.id] == FOREIGN for one in claims), "and none of them is deleted"
    assert ids(of(1, 1, 2, mine=False), Policy(last=1)) == {"e1n1", "e1n2"}, "without any of its own"


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
