"""Addresses of nodes: one reading, with port 9444 unless another is written; nonsense is refused with a remedy."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.agent_address import place, shown


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("100.64.0.2", ("100.64.0.2", 9444)),
        ("100.64.0.2:1", ("100.64.0.2", 1)),
        ("fd00::2", ("fd00::2", 9444)),
        ("::1", ("::1", 9444)),
        ("[fd00::2]", ("fd00::2", 9444)),
        ("[fd00::2]:65535", ("fd00::2", 65535)),
        ("w1.overlay.example:80", ("w1.overlay.example", 80)),
    ],
)
def test_a_place_is_read_and_written_back(text: str, where: tuple[str, int]) -> None:
    assert place(text) == where
    assert place(shown(*where)) == where


BAD = [
    "",
    " ",
    "a b",
    "a/b",
    "a@b",
    "a:",
    "a:0",
    "a:65536",
    "a:x",
    "[::1",
    "[]:1",
    "a?b",
    "a#b",
    "x" * 300,
    "h\n",
    "a%b",
]


@pytest.mark.parametrize("text", BAD)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as told:
        place(text)
    assert told.value.code == "node_address" and "address" in told.value.remedy
