"""`holdfast migrate`: which service is meant is never ambiguous, and what is lost is a bound."""

from argparse import Namespace
from typing import Any

import pytest

from holdfast.cli.moves import lost_data, migrate, pinned_file
from holdfast.errors import Invalid

PLAIN: dict[str, Any] = {
    "service": "", "to": "", "all": False, "source": "", "force": False, "abort": False, "backup": "",
}  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"all": True},
        {"all": True, "source": "w1", "service": "web"},
        {"all": True, "source": "w1", "abort": True},
        {"all": True, "source": "w1", "backup": "4f"},
        {"service": "web", "source": "w1"},
        {"service": "web", "abort": True, "to": "w2"},
        {"service": "web", "abort": True, "force": True},
    ],
    ids=str,
)
def test_what_is_ambiguous_is_refused_before_anything_is_asked(given: dict[str, Any]) -> None:
    """M-49: --all with a service is ambiguous, --all needs the node."""
    with pytest.raises(Invalid) as refused:
        migrate.run(Namespace(**PLAIN | given), None)  # type: ignore[arg-type]
    assert refused.value.code == "usage" and refused.value.remedy


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1 min"),
        (61, "2 min"),
        (3599, "1 h 0 min"),
        (11_520, "3 h 12 min"),
        (11_521, "3 h 13 min"),
        (172_800, "2 d 0 h"),
        (172_801, "2 d 1 h"),
    ],
)
def test_what_is_lost_at_most_is_rounded_up(seconds: float, text: str) -> None:
    assert lost_data.at_most(seconds) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('node = "w1"\n', 'node = "w2"\n'),
        ("# home\nprotect = true\n  node='w1'  # the big one\r\n[[components]]\n", None),
        ('[[components]]\nnode = "w1"\n', ""),
        ("protect = true\n", ""),
        ('x = { node = "w1" }\n', ""),
    ],
)
def test_the_pin_in_a_file_follows_and_nothing_else_changes(before: str, after: str | None) -> None:
    wanted = before.replace("node='w1'", 'node="w2"') if after is None else after or None
    assert pinned_file.repinned(before, "w2") == wanted
