"""Every requirement in the scope of what is built is cited by a test, in its name or a docstring."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Issue «Ground floor»: O except what speaks of graphs and stored queries alone.
LATER = {16, 18, 19, 22, 23, 24, 35, 36}
SCOPE = (
    {f"O-{n:02d}" for n in range(1, 47) if n not in LATER}
    | {f"M-{n}" for n in (35, 36, 37, 38, 39, 40, 41, 42, 120, 121, 122, 123, 124)}
    | {f"C-{n:02d}" for n in (8, 9, 10, 11, 12, 13, 14, 15, 16, 34)}
    | {"D-01"}
    | {f"I-{n:02d}" for n in (5, 6, 7, 8, 9, 22, 37)}
    # Issue «A fleet».
    | {f"M-{n:02d}" for n in (*range(11, 35), *range(43, 65), *range(74, 78), 113, 117)}
    | {f"T-{n:02d}" for n in (1, 2, 3, 4, 5, 7, 8, 16, 17, 18, 19)}
    | {f"F-{n:02d}" for n in (3, 4, *range(21, 28))}
    | {f"H-{n:02d}" for n in (10, 16, *range(21, 39))}
    | {f"C-{n:02d}" for n in (1, 2, 4, 5, 6, 7, 10, 23, 36)}
    | {f"I-{n:02d}" for n in (1, 2, 3, 4, 12, 13, 15, 27, 30, 31, 36, 38, 39)}
    | {"D-04", "D-08", "D-19", "D-25"}
    # Issue «Deploy for real».
    | {f"T-{n:02d}" for n in (*range(1, 16), 27, 28, *range(32, 35))}
    | {f"M-{n:02d}" for n in (1, 9, *range(31, 43), 46, 78, 85)}
    | {f"H-{n:02d}" for n in (12, *range(23, 27), *range(69, 72))}
    | {f"C-{n:02d}" for n in (5, 17, 30, 35)}
    | {f"I-{n:02d}" for n in (21, *range(23, 27), 28, 35)}
    | {"D-17", "D-18", "D-24"}
    # Issue «Traffic».
    | {f"M-{n:02d}" for n in (*range(2, 8), 13, *range(24, 28), 45, 48, *range(78, 89), *range(114, 117), 123)}
    | {f"M-{n}" for n in (*range(134, 138), 146)}
    | {f"T-{n:02d}" for n in (6, 11, 12, *range(29, 35))}
    | {f"C-{n:02d}" for n in (20, 24, 25, 26)}
    | {f"I-{n:02d}" for n in range(16, 20)}
    | {"D-02", "D-06", "D-27"}
    # Issue «Green means answered».
    | {"M-125", "M-131"}
)


def test_every_requirement_in_scope_is_cited_by_a_test() -> None:
    here = Path(__file__)
    cited: set[str] = set()
    for path in TESTS.rglob("*.py"):
        if path != here:
            cited |= citations(path.read_text())
    assert sorted(SCOPE - cited) == []


def citations(text: str) -> set[str]:
    """`O-33` in prose, `O-28…O-30` as a span, `_o_33` in the name of a test."""
    found = set(re.findall(r"\b[OMCDIHTF]-\d{2,3}\b", text))
    for letter, first, last in re.findall(r"\b([OMCDIHTF])-(\d+)…(?:[OMCDIHTF]-)?(\d+)", text):
        found |= {f"{letter}-{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)}
    return found | {f"{letter.upper()}-{n}" for letter, n in re.findall(r"_([omcdihtf])_(\d{2,3})(?=[_(])", text)}


def test_citations_are_found_in_every_form() -> None:
    text = "def test_x_o_33_h_21() -> None: 'I-05, O-28…O-30, T-16'"
    assert citations(text) == {"O-33", "H-21", "I-05", "O-28", "O-29", "O-30", "T-16"}
