"""What becomes of a container nobody wants: every row, and the promises over all rows (C-05, T-15, D-17, I-35)."""

import itertools
from typing import get_args

import pytest
from msgspec.structs import replace

from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, Container
from holdfast.reconcile.orphans import TABLE, Facts, Fate, Mark, Switch, fate, mark_of

BOTH = (True, False)
ALL = [Facts(*row) for row in itertools.product(get_args(Mark), get_args(Switch), BOTH, BOTH)]
OURS = Facts("ours", "report", foreign=False, complete=True)
FOREIGN = replace(OURS, mark="none")


def test_every_set_of_facts_has_a_fate_and_every_row_decides_some() -> None:
    assert len(ALL) == 4 * 3 * 2**2
    rows = [next(at for at, (holds, _) in enumerate(TABLE) if holds(facts)) for facts in ALL]
    assert set(rows) == set(range(len(TABLE)))
    assert {fate(facts) for facts in ALL} == set(get_args(Fate))


def test_node_infrastructure_is_never_an_orphan() -> None:
    """I-35, D-17, M-31"""
    assert {fate(facts) for facts in ALL if facts.mark == "infrastructure"} == {"keep"}


def test_nothing_is_touched_unless_the_manifest_was_read_completely() -> None:
    """C-05: absence must be proven."""
    assert {fate(facts) for facts in ALL if not facts.complete} == {"keep"}


def test_by_default_nothing_is_stopped_or_removed() -> None:
    assert {fate(facts) for facts in ALL if facts.switch == "report"} == {"keep", "report"}


def test_what_is_not_labelled_is_only_reported_unless_the_node_says_otherwise_twice() -> None:
    """T-15 is one switch away."""
    for facts in ALL:
        if facts.mark == "none" and fate(facts) in ("stop", "remove"):
            assert facts.foreign and facts.switch == fate(facts)
    assert fate(replace(FOREIGN, switch="remove")) == "report"
    assert fate(replace(FOREIGN, switch="remove", foreign=True)) == "remove"
    assert fate(replace(FOREIGN, foreign=True)) == "report"


def test_the_containers_of_another_fleet_are_reported_and_never_touched() -> None:
    assert {fate(facts) for facts in ALL if facts.mark == "other"} == {"keep", "report"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (OURS, "report"),
        (replace(OURS, switch="stop"), "stop"),
        (replace(OURS, switch="remove"), "remove"),
        (replace(OURS, switch="remove", complete=False), "keep"),
        (FOREIGN, "report"),
        (replace(FOREIGN, switch="stop"), "report"),
        (replace(FOREIGN, switch="stop", foreign=True), "stop"),
        (replace(FOREIGN, mark="other", switch="remove", foreign=True), "report"),
        (replace(FOREIGN, mark="infrastructure", switch="remove", foreign=True), "keep"),
    ],
)
def test_the_table_row_by_row(facts: Facts, expected: Fate) -> None:
    assert fate(facts) == expected


def test_a_container_is_marked_by_its_labels() -> None:
    plain = Container("a", "a", "running")
    assert mark_of(plain, "f1") == "none"
    assert mark_of(replace(plain, labels={LABEL_FLEET: "f1"}), "f1") == "ours"
    assert mark_of(replace(plain, labels={LABEL_FLEET: "f2"}), "f1") == "other"
    both = {LABEL_FLEET: "f1", LABEL_INFRASTRUCTURE: "proxy"}
    assert mark_of(replace(plain, labels=both), "f1") == "infrastructure"
