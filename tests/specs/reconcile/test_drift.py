"""Drift has kinds people can read and hashes that do not depend on order (T-09…T-13, T-33, I-22)."""

import itertools
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.model.container import Guest
from holdfast.reconcile import drift
from holdfast.reconcile.drift import TABLE, Drift, Fit, Kind
from holdfast.reconcile.here import Here
from tests.specs.reconcile.guests import down, guest, here, made, part, seen

WEB1, WEB2, JOB = part(version="1"), part(version="2"), part("job")
V1 = guest(WEB1)
ENV = replace(WEB1, spec=replace(WEB1.spec, env=(("A", "b"),)), digest="e" * 64)


def kinds(target: Guest | None, picture: Here) -> list[tuple[Kind, str]]:
    return [(one.kind, one.container) for one in drift.service("shop", target, picture)]


def test_every_place_and_everything_in_it_has_a_row() -> None:
    """T-10"""
    assert set(TABLE) == set(itertools.product((True, False), (None, *get_args(Fit))))
    assert set(TABLE.values()) - {None} == {"missing", "orphaned", "wrong_state", "image_mismatch", "spec_changed"}
    assert [place for place, kind in TABLE.items() if kind is None] == [(True, "as wanted"), (False, None)]


@pytest.mark.parametrize(
    ("target", "picture", "found"),
    [
        (V1, here(seen(WEB1, "a"), serving=V1), []),
        (V1, here(serving=V1), [("missing", "")]),
        (V1, here(down(WEB1, "a"), serving=V1), [("wrong_state", "a")]),
        (V1, here(made(WEB1, "a"), serving=V1), [("wrong_state", "a")]),
        (V1, here(seen(WEB1, "a", "starting", running=False), serving=V1), []),
        (V1, here(seen(WEB2, "a")), [("image_mismatch", "a")]),
        (V1, here(down(WEB2, "a")), [("image_mismatch", "a")]),
        (V1, here(seen(ENV, "a")), [("spec_changed", "a")]),
        (V1, here(seen(WEB1, "a"), seen(WEB1, "b", replica=1), serving=V1), [("orphaned", "b")]),
        (V1, here(seen(WEB1, "a"), seen(JOB, "j"), serving=V1), [("orphaned", "j")]),
        (V1, here(seen(WEB1, "a"), seen(WEB1, "b"), serving=V1), [("orphaned", "b")]),
        (V1, here(seen(WEB1, "a"), down(WEB2, "b"), serving=V1), [("orphaned", "b")]),
        (guest(WEB1, JOB), here(seen(WEB2, "a")), [("image_mismatch", "a"), ("missing", "")]),
        (None, here(seen(WEB1, "a"), down(JOB, "j")), [("orphaned", "j"), ("orphaned", "a")]),
        (None, here(), []),
    ],
)
def test_containers_drift_in_kinds(target: Guest | None, picture: Here, found: list[tuple[Kind, str]]) -> None:
    assert kinds(target, picture) == found


def test_a_service_that_is_off_drifts_only_while_something_of_it_runs() -> None:
    """C-30"""
    off = replace(V1, active=False)
    for target, more in ((off, {}), (V1, {"held": True})):
        assert kinds(target, here(seen(WEB1, "a"), seen(WEB2, "b"), **more)) == [
            ("wrong_state", "a"),
            ("wrong_state", "b"),
        ]
        assert kinds(target, here(down(WEB1, "a"), **more)) == []
        assert kinds(target, here(**more)) == [], "nothing is missing"
        assert kinds(target, here(down(WEB1, "a"), routed={"a"}, **more)) == [("routes", "")]


def test_what_is_not_switched_to_yet_is_unsettled_and_lost_routes_are_routes() -> None:
    assert kinds(V1, here(seen(WEB1, "a"))) == [("unsettled", "")]
    assert kinds(V1, here(seen(WEB1, "a"), serving=V1, routed=())) == [("routes", "")]
    assert kinds(V1, here(seen(WEB1, "a"), serving=V1, routed={"a", "b"})) == [("routes", "")]
    assert kinds(V1, here(seen(WEB1, "a"), serving=V1, routed={"a"})) == []


def test_waiting_for_one_that_was_started_again_is_no_drift_but_waiting_for_a_newcomer_is() -> None:
    again = here(seen(WEB1, "a", "starting"), serving=V1)
    assert kinds(V1, again) == [] and drift.due(V1, again) == ()
    first = here(seen(WEB1, "a", "starting"))
    assert kinds(V1, first) == [("unsettled", "")] and len(drift.due(V1, first)) == 1


ROWS = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3)), max_size=6)


@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_the_same_rows_have_the_same_hash_in_any_order(rows: list[tuple[str, int]], order: Random) -> None:
    """T-09, T-11, T-12, T-13"""
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert drift.digest(rows) == drift.digest(shuffled)


@given(one=ROWS, other=ROWS)
def test_other_rows_have_another_hash(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    assert (drift.digest(one) == drift.digest(other)) is (sorted(one) == sorted(other))


def test_a_difference_belongs_to_the_containers_or_to_the_routes() -> None:
    named = {kind: drift.subsystems([Drift("shop", kind)]) for kind in drift.KINDS}
    assert named.pop("routes") == ["routes"] and named.pop("unsettled") == []
    assert set(map(tuple, named.values())) == {("containers",)}
    assert drift.subsystems([Drift("b", "routes"), Drift("a", "missing")]) == ["containers", "routes"]


def test_findings_name_the_place_and_come_sorted() -> None:
    target = guest(replace(WEB1, replicas=2))
    assert drift.service("shop", target, here()) == (
        Drift("shop", "missing", "web", 0),
        Drift("shop", "missing", "web", 1),
    )
