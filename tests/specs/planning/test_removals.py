"""Empty is not removal, and removal is never silent (C-08, I-37, W12)."""

import pytest

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.plan import Change
from holdfast.model.revision import Entry, Table
from holdfast.planning.removals import check

APPLIED = Table({f"service.{n}": Entry("0" * 64, protect=n == "gold") for n in ("a", "b", "c", "d", "gold")}, {})


def removals(*names: str) -> tuple[Change, ...]:
    return tuple(Change(f"service.{name}", "retire", "w1", "apply", "", removes=True) for name in names)


def test_nothing_removed_needs_no_permission() -> None:
    check((), APPLIED, 3, None)


def test_a_removal_without_permission_names_the_flag() -> None:
    with pytest.raises(NotPermitted, match=r"service\.a, service\.b") as refused:
        check(removals("a", "b"), APPLIED, 3, None)
    assert refused.value.remedy.endswith("--allow-removals 2") and refused.value.exit_code == 3


def test_the_exact_number_is_permission_enough() -> None:
    check(removals("a", "b"), APPLIED, 3, 2)


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_another_number_is_not(allowed: int) -> None:
    with pytest.raises(Invalid) as refused:
        check(removals("a", "b"), APPLIED, 3, allowed)
    assert refused.value.exit_code == 2 and "--allow-removals 2" in refused.value.remedy


def test_a_number_where_nothing_is_removed_is_a_mistake() -> None:
    with pytest.raises(Invalid, match="removes nothing"):
        check((), APPLIED, 3, 2)


def test_protection_outlives_the_file_that_declared_it() -> None:
    """hashicorp/terraform #17599: the block that protects went away together with its protection."""
    with pytest.raises(NotPermitted, match=r"service\.gold is protected in the ledger") as refused:
        check(removals("gold"), APPLIED, 3, 1)
    assert "protect = false" in refused.value.remedy
    assert "if it is gone" in refused.value.remedy, "a rollback is refused as well, and the file is there"


def test_more_than_the_fleet_allows_is_refused_even_with_the_right_number() -> None:
    with pytest.raises(NotPermitted, match="allows 3 at a time"):
        check(removals("a", "b", "c", "d"), APPLIED, 3, 4)
