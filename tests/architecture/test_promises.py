"""Each promise of docs/security.md and docs/reference/gate.md names the test that shows it, and that test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "docs" / "security.md").read_text()
GATE = (ROOT / "docs" / "reference" / "gate.md").read_text()
PROTECTED = "What is protected"
TABLES = ("What an owned hub can do to deployments, and what not", "What an owned edge can do, and what not")

_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"tests/[\w/]+\.py")
_TEST = re.compile(r"test_\w+")
_DEFINED = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)


def defined() -> set[str]:
    """The names of all tests."""
    return {name for path in (ROOT / "tests").rglob("test_*.py") for name in _DEFINED.findall(path.read_text())}


def section(text: str, title: str) -> str:
    """What stands between this heading and the next one."""
    _, _, rest = text.partition(f"\n## {title}\n")
    assert rest, f"there is no section {title!r}"
    return rest.partition("\n## ")[0]


def bullets(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"^- ", text, flags=re.MULTILINE)[1:]]


def rows(text: str) -> list[str]:
    """Of a table, without its heading."""
    return [line for line in text.splitlines() if line.startswith(("| ", "|`"))][1:]


def shown_by(promise: str) -> list[str]:
    """Files and functions of tests in backticks."""
    return [code for code in _CODE.findall(promise) if _FILE.fullmatch(code) or _TEST.fullmatch(code)]


PROMISES = [
    *bullets(section(SECURITY, PROTECTED)),
    *(row for title in TABLES for row in rows(section(SECURITY, title))),
    *rows(section(GATE, "Where each act is decided")),
]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[:60])
def test_a_promise_names_the_test_that_shows_it(promise: str) -> None:
    assert shown_by(promise) != [], promise


@pytest.mark.parametrize("text", [SECURITY, GATE], ids=["security.md", "gate.md"])
def test_every_test_that_these_pages_name_exists(text: str) -> None:
    known = defined()
    named = shown_by(text)
    assert [one for one in named if not (one in known or (ROOT / one).is_file())] == [] and len(named) > 40


def test_promises_are_told_from_other_lines() -> None:
    table = "| can | cannot |\n|---|---|\n| x | y |\n"
    text = f"\n## A\n\nwords\n\n- **one** `tests/a/test_b.py`\n  goes on\n- two\n\n{table}\n## B\n- z\n"
    assert bullets(section(text, "A").partition("\n|")[0]) == ["**one** `tests/a/test_b.py` goes on", "two"]
    assert rows(section(text, "A")) == ["| x | y |"]
    assert shown_by("`tests/a/test_b.py` `test_c` `src/d.py` tests/e.py") == ["tests/a/test_b.py", "test_c"]
