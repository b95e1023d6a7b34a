"""Answers to needs are untrusted: closed fields, printable text, bounded; no error repeats a value (F-50, I-36)."""

from collections.abc import Mapping

import pytest

from holdfast.errors import Invalid
from holdfast.model.need import FIELDS_MAX, VALUE_CHARS_MAX
from holdfast.reconcile.need_values import TOGETHER_BYTES_MAX, checked

GOOD = {"user": "web_w1_00aa", "password": "Zm9vYmFy_Zm9vYmFy-Zm9v", "database": "web_db_00aa"}
FACTS = {"fields": "token note ca_pem"}
CANARY = "canary-7d1f"

HOSTILE: Mapping[str, tuple[str, object]] = {
    "no object": ("postgres", [CANARY]),
    "a text": ("postgres", CANARY),
    "nothing": ("postgres", None),
    "a number": ("postgres", 7),
    "no field": ("postgres", {}),
    "a host": ("postgres", {**GOOD, "host": CANARY}),
    "a port": ("postgres", {**GOOD, "port": "5432"}),
    "a path as a name": ("postgres", {**GOOD, "../../etc/shadow": CANARY}),
    "a hidden name": ("app", {".token": CANARY}),
    "an empty name": ("app", {"": CANARY}),
    "a name with a line": ("app", {"token\n": CANARY}),
    "a name in capitals": ("app", {"TOKEN": CANARY}),
    "a long name": ("app", {"t" * 41: CANARY}),
    "a number as a name": ("app", {7: CANARY}),
    "a field of another type": ("app", {"password": CANARY}),
    "no password": ("postgres", {"user": "a", "database": "b"}),
    "an empty password": ("postgres", {**GOOD, "password": ""}),
    "a short password": ("postgres", {**GOOD, "password": "a"}),
    "a password that ends a URL": ("postgres", {**GOOD, "password": f"{CANARY}@evil.example/x?sslmode=disable"}),
    "a password with a quote": ("postgres", {**GOOD, "password": f"{CANARY}{CANARY}' or 1"}),
    "a user that is another host": ("postgres", {**GOOD, "user": "a:b@evil"}),
    "a database with parameters": ("postgres", {**GOOD, "database": "b?host=/tmp"}),
    "a second line": ("app", {"token": f"{CANARY}\nexport LD_PRELOAD=/x"}),
    "a carriage return": ("app", {"token": f"{CANARY}\r"}),
    "a zero byte": ("app", {"token": f"{CANARY}\0"}),
    "an escape for a terminal": ("app", {"token": f"{CANARY}\x1b[2J"}),
    "text from right to left": ("app", {"token": f"{CANARY}\u202e"}),
    "half a character": ("app", {"token": f"{CANARY}\ud800"}),
    "a line separator": ("app", {"token": f"{CANARY}\u2028"}),
    "a list as a value": ("app", {"token": [CANARY]}),
    "nothing as a value": ("app", {"token": None}),
    "a value that is too long": ("app", {"token": CANARY + "x" * VALUE_CHARS_MAX}),
    "a value that is too long in bytes": ("app", {"token": "ü" * (VALUE_CHARS_MAX // 2 + 1)}),
    "a PEM with a carriage return": ("app", {"ca_pem": f"{CANARY}\r\n"}),
    "a PEM with an escape": ("app", {"ca_pem": f"{CANARY}\n\x1b[2J"}),
    "a PEM that is not ASCII": ("app", {"ca_pem": f"{CANARY}\u202e"}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_answer_is_refused_without_its_values(case: str) -> None:
    type, values = HOSTILE[case]
    with pytest.raises(Invalid) as refused:
        checked(type, FACTS, values)
    assert refused.value.code == "need_answer_refused" and CANARY not in str(refused.value.args)


def test_there_are_thirty_hostile_answers() -> None:
    assert len(HOSTILE) >= 30


def test_a_good_answer_is_given_as_it_is() -> None:
    assert checked("postgres", {}, GOOD) == GOOD
    assert checked("app", FACTS, {"token": "a b ü", "ca_pem": "-----BEGIN\nx\n"}) == {
        "token": "a b ü",
        "ca_pem": "-----BEGIN\nx\n",
    }


def test_a_program_may_leave_fields_out_and_a_built_in_type_may_not() -> None:
    assert checked("app", FACTS, {"note": "x"}) == {"note": "x"}
    for field in GOOD:
        with pytest.raises(Invalid, match=f"lacks {field}"):
            checked("postgres", {}, {name: text for name, text in GOOD.items() if name != field})


def test_the_bounds_are_exact() -> None:
    assert checked("app", FACTS, {"token": "x" * VALUE_CHARS_MAX})
    names = [f"f{number}" for number in range(FIELDS_MAX + 1)]
    facts = {"fields": " ".join(names)}
    assert len(checked("app", facts, dict.fromkeys(names[:FIELDS_MAX], "x"))) == FIELDS_MAX
    with pytest.raises(Invalid, match="more than 16 fields"):
        checked("app", facts, dict.fromkeys(names, "x"))
    each = TOGETHER_BYTES_MAX // 4 - 2
    assert checked("app", facts, dict.fromkeys(names[:4], "x" * each))
    with pytest.raises(Invalid, match="more than 65,536 bytes"):
        checked("app", facts, dict.fromkeys(names[:4], "x" * each) | {"f4": "x"})


def test_a_type_without_declared_fields_has_none() -> None:
    with pytest.raises(Invalid):
        checked("app", {}, {"token": "x"})
