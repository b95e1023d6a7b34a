"""The boot table as values (O-33, R11): every row has a level and a remedy."""

import pytest
from msgspec import UNSET

from holdfast.errors import Corrupt
from holdfast.ledger.boot_findings import (
    ROWS,
    content_findings,
    finding,
    from_error,
    head_findings,
    lost_digest,
    quarantined,
    recovery_findings,
    refusal,
)
from holdfast.model.record import Recovery
from holdfast.model.revision import Entry, Head, Table

ONE, TWO = "1" * 64, "2" * 64


@pytest.mark.parametrize("code", ROWS)
def test_every_row_refuses_or_quarantines_and_says_what_to_do_o_40(code: str) -> None:
    """O-40, I-07: typed, loud, with a remedy."""
    found = finding(code, "something is wrong", "service.x" if ROWS[code][0] == "resource" else "")
    assert found.remedy and found.level == ROWS[code][0]
    refused = refusal([found], strict=False)
    assert (refused is not None) == (found.level == "fatal")
    if refused:
        assert (refused.code, refused.exit_code) == (code, 7)


def test_strict_refuses_on_a_quarantined_resource_too() -> None:
    found = [finding("blob_damaged", "x", "service.x")]
    assert refusal(found, strict=False) is None
    strict = refusal(found, strict=True)
    assert strict is not None and strict.code == "blob_damaged"


def test_a_warning_never_refuses_c_15() -> None:
    """C-15: integrity problems refuse, liveness problems are shown."""
    assert refusal([finding("revision_behind", "x")], strict=True) is None


@pytest.mark.parametrize(
    ("head", "mark", "code"),
    [
        (Head(3, ONE), None, None),
        (Head(3, ONE), Head(2, TWO), None),
        (Head(3, ONE), Head(3, ONE), None),
        (Head(2, ONE), Head(3, ONE), "rolled_back"),
        (Head(0, ""), Head(1, ONE), "rolled_back"),
        (Head(3, ONE), Head(3, TWO), "forked"),
    ],
)
def test_a_head_below_the_high_water_mark_is_a_rollback(head: Head, mark: Head | None, code: str | None) -> None:
    """W14, A11: an older valid state must not boot happily."""
    assert [found.code for found in head_findings(head, mark)] == ([code] if code else [])


def test_exactly_the_damaged_resource_is_quarantined() -> None:
    table = Table({"fleet": Entry(ONE), "trust": Entry(ONE), "service.a": Entry(ONE), "service.b": Entry(TWO)}, {})
    damaged = content_findings(table, {}, [(ONE, ONE), (TWO, ONE)])
    assert list(quarantined(damaged)) == ["service.b"] and damaged[0].code == "blob_damaged"
    missing = content_findings(table, {}, [(ONE, ONE), (TWO, None)])
    assert list(quarantined(missing)) == ["service.b"] and missing[0].code == "blob_missing"


@pytest.mark.parametrize(("stored", "code"), [(None, "manifest_missing"), (ONE, "manifest_damaged")])
def test_a_manifest_that_cannot_be_given_quarantines_its_node(stored: str | None, code: str) -> None:
    table = Table({"node.a": Entry(ONE), "node.b": Entry(ONE)}, {})
    (found,) = content_findings(table, {"a": ONE, "b": TWO}, [(ONE, ONE), (TWO, stored)])
    assert (found.code, found.level, found.address) == (code, "resource", "node.b")
    assert "holdfast apply" in found.remedy
    assert lost_digest(found, table, {"a": ONE, "b": TWO}) == TWO
    assert lost_digest(finding("binding_missing", "x", "policy.b"), table, {"b": TWO}) is None


@pytest.mark.parametrize("address", ["fleet", "trust"])
def test_damage_to_what_everything_needs_is_global(address: str) -> None:
    table = Table({address: Entry(TWO), "service.a": Entry(ONE)}, {})
    assert refusal(content_findings(table, {}, [(ONE, ONE), (TWO, None)]), strict=False) is not None


def test_a_policy_without_its_binding_is_quarantined_o_30() -> None:
    """O-28…O-30: the binding is an applied fact; without it the policy is not served."""
    table = Table({"policy.a": Entry(ONE, applies_to=("fleet",)), "policy.b": Entry(ONE, applies_to=UNSET)}, {})
    (found,) = content_findings(table, {}, [(ONE, ONE)])
    assert (found.code, found.address) == ("binding_missing", "policy.b")
    assert "holdfast apply" in found.remedy


def test_a_pending_recovery_is_a_row_with_its_own_code_o_21() -> None:
    (found,) = recovery_findings([Recovery("ab", 3, ONE, TWO, 0.0, ())])
    assert found.code == "ledger_recovery_pending" and "hub check --sweep" in found.remedy


def test_refusals_of_lower_rooms_become_rows_of_the_same_table() -> None:
    known = from_error(Corrupt("x", remedy="y", code="ledger_truncated"))
    unknown = from_error(Corrupt("x", remedy="y", code="something_else"))
    assert (known.code, unknown.code) == ("ledger_truncated", "head_damaged")
