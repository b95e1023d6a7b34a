"""Internal names: what must be served, what changes, and what may be deleted (T-11, C-20, D-06, I-19)."""

import string

from hypothesis import given
from hypothesis import strategies as st

from holdfast.reconcile import dns_records
from holdfast.reconcile.dns_records import (
    LINGER_S,
    Changes,
    Lingering,
    changes,
    lingering,
    staying,
    withdrawn,
)

WEB, API = "web.shop.holdfast.internal", "api.shop.holdfast.internal"
ONE, TWO = "100.64.0.1", "100.64.0.2"

a_name = st.sampled_from([f"{letter}.shop.holdfast.internal" for letter in string.ascii_lowercase[:6]])
an_address = st.sampled_from([f"100.64.0.{n}" for n in range(1, 5)])
some_records = st.dictionaries(a_name, an_address, max_size=6)


def test_what_is_right_needs_nothing() -> None:
    assert not changes({WEB: ONE}, {WEB: ONE}, {WEB: ONE}, {})


def test_a_new_name_is_put_and_one_that_moved_is_replaced() -> None:
    """M-78, step 3: the record leads to the node that runs the service."""
    change = changes({WEB: TWO, API: ONE}, {WEB: ONE}, {WEB: ONE}, {})
    assert change == Changes(records={API: ONE, WEB: TWO}, put={API: ONE, WEB: TWO})


def test_the_clean_up_of_the_old_owner_does_not_take_the_record_of_the_new_one() -> None:
    """D-06: the record moved with the service; whoever then lets go of the old place does not mean the new one."""
    left = lingering({WEB: ONE}, {}, {}, 0.0)
    back = lingering({WEB: ONE}, {WEB: TWO}, left, 1.0)
    gone = withdrawn(back, [WEB], 2.0)
    assert changes({WEB: TWO}, {WEB: TWO}, {WEB: TWO}, staying(gone, 2.0 + LINGER_S)).records == {WEB: TWO}
    assert not changes({WEB: TWO}, {WEB: TWO}, {WEB: TWO}, staying(gone, 2.0 + LINGER_S))


def test_what_left_stays_until_it_is_withdrawn() -> None:
    """I-19: backend stop precedes edge removal precedes record removal."""
    left = lingering({WEB: ONE}, {}, {}, 0.0)
    assert not changes({}, {WEB: ONE}, {WEB: ONE}, staying(left, 1.0))
    assert changes({}, {WEB: ONE}, {WEB: ONE}, staying(withdrawn(left, [WEB], 1.0), 1.0)).deleted == {WEB: ONE}


def test_what_left_goes_in_the_end_though_nobody_says_so() -> None:
    left = lingering({WEB: ONE}, {}, {}, 5.0)
    assert staying(left, 5.0 + LINGER_S - 0.1) == {WEB: ONE}
    assert staying(left, 5.0 + LINGER_S) == {}


def test_revisions_meanwhile_do_not_prolong_it() -> None:
    left = lingering({WEB: ONE}, {}, {}, 0.0)
    assert lingering({WEB: ONE}, {API: TWO}, left, 60.0) == left
    withdrawn_once = withdrawn(left, [WEB], 60.0)
    assert lingering({WEB: ONE}, {API: TWO}, withdrawn_once, 70.0) == withdrawn_once


def test_a_record_nobody_here_wrote_is_told_apart() -> None:
    change = changes({}, {WEB: TWO, API: ONE}, {WEB: ONE, API: ONE}, {})
    assert (change.deleted, change.strange) == ({API: ONE}, {WEB: TWO})


@given(some_records, some_records, some_records, some_records)
def test_everything_wanted_is_served_afterwards_and_nothing_unknown(
    wanted: dict[str, str], served: dict[str, str], written: dict[str, str], stays: dict[str, str]
) -> None:
    """I-23: a second look finds nothing to do."""
    change = changes(wanted, served, written, stays)
    assert change.records.items() >= wanted.items()
    assert change.records.keys() == wanted.keys() | stays.keys()
    assert not changes(wanted, change.records, change.records, stays)


@given(some_records, some_records, some_records, some_records)
def test_only_what_this_node_wrote_is_deleted(
    wanted: dict[str, str], served: dict[str, str], written: dict[str, str], stays: dict[str, str]
) -> None:
    """C-20: compare, then delete."""
    change = changes(wanted, served, written, stays)
    assert all(served[name] == written[name] == address for name, address in change.deleted.items())
    assert not change.deleted.keys() & (wanted.keys() | stays.keys())
    assert not change.deleted.keys() & change.strange.keys()
    assert change.put.items() <= change.records.items()
    assert all(served.get(name) != address for name, address in change.put.items())


@given(some_records, some_records, st.lists(a_name))
def test_what_is_wanted_never_lingers_and_cannot_be_withdrawn(
    written: dict[str, str], wanted: dict[str, str], gone: list[str]
) -> None:
    left = withdrawn(lingering(written, wanted, {}, 0.0), gone, 1.0)
    assert not left.keys() & wanted.keys()
    assert changes(wanted, written, written, staying(left, 1.0)).records.items() >= wanted.items()
    assert staying(left, 1.0).keys() == written.keys() - wanted.keys() - set(gone)


@given(some_records, st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_order(records: dict[str, str], chance: object) -> None:
    """T-11: a hash over sorted records; I-22: regardless of the order they came in."""
    shuffled = list(records.items())
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert dns_records.digest(dict(shuffled)) == dns_records.digest(records)


@given(some_records, some_records)
def test_different_records_have_different_digests(one: dict[str, str], other: dict[str, str]) -> None:
    assert (dns_records.digest(one) == dns_records.digest(other)) == (one == other)


def test_a_record_that_came_back_with_another_address_lingers_anew() -> None:
    assert lingering({WEB: TWO}, {}, {WEB: Lingering(ONE, 10.0)}, 50.0) == {WEB: Lingering(TWO, 50.0 + LINGER_S)}
