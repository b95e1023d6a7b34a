"""The gate (design.md §2, H-27…H-32, I-02, I-04, W1–W4, W10): complete, on the safe side, and deaf to messages."""

from collections import Counter
from itertools import product
from pathlib import Path

import msgspec

from holdfast.gate import decide as gate
from holdfast.gate import facts, reference
from holdfast.gate.acts import ACT_OF, Act, Data, Provenance
from holdfast.gate.table import ROWS, TABLE
from holdfast.model.checkin import CheckInAnswer, JoinAnswer
from holdfast.model.manifest import NodeManifest
from holdfast.model.order import ACTIONS, Order
from holdfast.model.revision import Header, Table
from holdfast.model.trust import RANK, Trust
from tests.fleets import facts_suite, gate_suite

STRICTNESS: dict[str, int] = {"none": -1, **dict(RANK.items())}
CASES = list(product(Act, Provenance, Data))


def test_every_case_has_exactly_one_row() -> None:
    """I-02: no gap that somebody would have to fill with a default, no overlap that makes order matter."""
    assert Counter(case for row in ROWS for case in row.cases()) == dict.fromkeys(CASES, 1)
    assert set(TABLE) == set(CASES)


def test_the_gate_decides_as_the_design_says_for_every_case_and_authority() -> None:
    """H-27: it looks at what a thing is and where it came from; H-30: as order or as revision makes no difference."""
    assert list(gate_suite.deciding(gate)) == []


def test_an_order_is_good_for_what_it_names_alone() -> None:
    assert list(gate_suite.ordering(gate)) == []


def test_a_revision_is_an_authority_over_one_address_and_a_permission_names_one_thing() -> None:
    assert list(gate_suite.covering(gate)) == []


def test_whatever_is_parked_names_the_command_that_signs_it() -> None:
    assert list(gate_suite.signing(gate)) == []


def test_healing_is_never_destroying_h_32() -> None:
    for act in (Act.RESTART, Act.START, Act.REPLACE):
        assert {TABLE[act, p, d].need for p, d in product(Provenance, Data)} == {"apply"}


def test_more_to_lose_never_needs_less() -> None:
    """Along every line towards the unknown and the irreplaceable the grade only rises."""
    for act in Act:
        for row in Provenance:
            needs = [STRICTNESS[TABLE[act, row, data].need] for data in Data]
            assert needs == sorted(needs), (act, row)
        for data in Data:
            needs = [STRICTNESS[TABLE[act, p, data].need] for p in Provenance if p is not Provenance.OWN_SCRATCH]
            assert needs == sorted(needs), (act, data)


def test_orders_and_gate_are_of_one_opinion() -> None:
    """W1: what a hub may ask for needs nobody; every other order needs at least what the gate may ask for."""
    assert set(ACT_OF) == set(ACTIONS)
    for action, rule in ACTIONS.items():
        worst = max(
            (TABLE[ACT_OF[action], p, d].need for p, d in product(Provenance, Data)), key=STRICTNESS.__getitem__
        )
        assert worst == ("none" if rule.hub_may else rule.grade), action


def test_facts_come_from_the_journal_and_the_disk_w_10() -> None:
    assert list(facts_suite.complaints(facts)) == []


def test_no_message_has_a_field_that_says_where_a_thing_came_from_i_04() -> None:
    """H-29: scratch marks are the agent's own. Every struct reachable from what a hub can send is looked through."""
    fields: set[str] = set()
    for message in (CheckInAnswer, JoinAnswer, NodeManifest, Order, Header, Table, Trust):
        fields |= _fields(msgspec.inspect.type_info(message), set())
    assert {"orders", "digest", "node"} <= fields, "the walk found nothing"
    told = ("scratch", "ephemeral", "provenance", "transaction", "temporary", "made_by", "owned", "copies")
    assert [name for name in fields if any(word in name for word in told)] == []


def _fields(kind: object, seen: set[type]) -> set[str]:
    found: set[str] = set()
    if isinstance(kind, msgspec.inspect.StructType):
        if kind.cls in seen:
            return found
        seen.add(kind.cls)
        for field in kind.fields:
            found |= {field.encode_name} | _fields(field.type, seen)
    for name in ("item_type", "key_type", "value_type"):
        if hasattr(kind, name):
            found |= _fields(getattr(kind, name), seen)
    for name in ("types", "item_types"):
        for part in getattr(kind, name, ()):
            found |= _fields(part, seen)
    return found


def test_marks_written_into_a_message_are_lost_on_the_way_i_04() -> None:
    """A hub that adds them finds that nothing reads them."""
    told = b'{"head":{"number":1,"digest":"d"},"time_s":1.0,"scratch":["/srv/web"],"provenance":"own_scratch"}'
    answer = msgspec.json.decode(told, type=CheckInAnswer)
    assert b"scratch" not in msgspec.json.encode(answer)


def test_the_page_in_the_reference_is_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "gate.md"
    assert page.read_text() == reference.reference(), "python -m holdfast.gate.reference > docs/reference/gate.md"
