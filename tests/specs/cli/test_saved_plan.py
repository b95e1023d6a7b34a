"""A plan in a file: what the second signer sees is computed from the bytes he signs (anchors B5)."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.fleet import saved_plan
from holdfast.errors import HoldfastError, Invalid
from holdfast.model.applied import Applied
from holdfast.model.revision import decode_header, encode_header
from holdfast.planning.plan import plan
from tests.fleets.build import grown_mailbox, small_fleet


def base() -> Applied:
    found = grown_mailbox(2).applied()
    assert found is not None
    return found


BASE = base()
PLAN = plan(small_fleet({"web": 7, "new": 1}), BASE)
SAVED = saved_plan.save(PLAN, BASE)


def test_a_saved_plan_opens_as_the_plan_that_was_saved() -> None:
    opened = saved_plan.read(SAVED)
    assert [(c.address, c.kind, c.fields, c.grade) for c in opened.plan.changes] == [
        (c.address, c.kind, c.fields, c.grade) for c in PLAN.changes
    ]
    assert (opened.plan.base, opened.plan.nodes_touched) == (PLAN.base, PLAN.nodes_touched)
    assert opened.saved.candidate == PLAN.candidate


def test_a_first_plan_can_be_saved_too() -> None:
    first = plan(small_fleet(), None)
    assert len(saved_plan.read(saved_plan.save(first, None)).plan.changes) == len(first.changes)


def test_no_changes_are_saved_as_no_changes() -> None:
    """`plan -o f && apply f` works when there is nothing to do, and no older plan stays behind."""
    opened = saved_plan.read(saved_plan.save(plan(small_fleet({"web": 2}), BASE), BASE))
    assert (opened.plan.changes, opened.plan.candidate, opened.plan.base) == ((), None, BASE.head)


def test_a_signature_is_added_and_nothing_else_changes() -> None:
    assert PLAN.candidate is not None
    signed = saved_plan.read(saved_plan.with_signature(saved_plan.read(SAVED).saved, PLAN.candidate, "armour"))
    assert signed.saved.candidate is not None and signed.saved.candidate.signatures == ("armour",)
    assert signed.plan.changes == saved_plan.read(SAVED).plan.changes


@pytest.mark.parametrize("field", ["base_header", "base_table", "base_trust", "base_contents"])
def test_a_changed_base_is_noticed(field: str) -> None:
    opened = saved_plan.read(SAVED).saved
    old = getattr(opened, field)
    new = {k: v + b" " for k, v in old.items()} if isinstance(old, dict) else old + b" "
    with pytest.raises(HoldfastError) as refused:
        saved_plan.read(msgspec.json.encode(replace(opened, **{field: new})))
    assert refused.value.exit_code == 7


def test_a_changed_content_is_noticed() -> None:
    opened = saved_plan.read(SAVED).saved
    assert opened.candidate is not None
    blobs = {digest: content.replace(b"web", b"wob") for digest, content in opened.candidate.blobs.items()}
    with pytest.raises(HoldfastError) as refused:
        saved_plan.read(msgspec.json.encode(replace(opened, candidate=replace(opened.candidate, blobs=blobs))))
    assert refused.value.exit_code == 7


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"format":"x"}', b"[" * 100_000, SAVED[:-40]])
def test_what_is_no_plan_is_said_so(content: bytes) -> None:
    with pytest.raises(Invalid, match="saved plan"):
        saved_plan.read(content)


@pytest.mark.parametrize(
    "lie",
    [
        {"trust": "f" * 64},
        {"manifests": {"w1": "f" * 64}},
        {"manifests": {}},
        {"number": 77},
        {"fleet": "f" * 64},
        {"parent": ""},
    ],
)
def test_a_header_that_says_more_than_is_shown_is_not_signed(lie: dict[str, object]) -> None:
    """What a signature covers is what the signer saw: trust, manifests and place in the chain included."""
    opened = saved_plan.read(SAVED).saved
    assert opened.candidate is not None
    header = replace(decode_header(opened.candidate.header), **lie)
    candidate = replace(opened.candidate, header=encode_header(header))
    with pytest.raises(HoldfastError) as refused:
        saved_plan.read(msgspec.json.encode(replace(opened, candidate=candidate)))
    assert refused.value.exit_code == 7
