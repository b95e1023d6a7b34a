"""Lines of keys: examples of every way to write TOML, and generated documents whose lines are known."""

from typing import Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.declared.places import index
from holdfast.declared.words import Path

EXAMPLE = '''\
# a comment with [brackets] and = signs
name = "a # b"
"quoted key" = 1
'literal.key' = 2
a.b.c = 3
"esc\\u0061ped" = 4

[table]
long = """
[not.a.table]
x = 1 \\""" still
"""
raw = \'\'\'
[[neither]]
\'\'\'
after = 1979-05-27 07:32:00

[[components]]
name = "one"
[[components.routes]]
port = 1
[[components.routes]]
port = 2
[components.health]
type = "tcp"

[[components]]
name = "two"
env = { A = "x", "B" = "}", c.d = 1 }
list = [
  1,  # one
  [2, 3],
  { x = 1 }, { y = 2 },
  "]",
  1979-05-27 07:32:00, 7,
]
[[components.routes]]
port = 3
'''

LINES: list[tuple[Path, int]] = [
    (("name",), 2),
    (("quoted key",), 3),
    (("literal.key",), 4),
    (("a",), 5),
    (("a", "b", "c"), 5),
    (("escaped",), 6),
    (("table",), 8),
    (("table", "long"), 9),
    (("table", "raw"), 13),
    (("table", "after"), 16),
    (("components",), 18),
    (("components", 0), 18),
    (("components", 0, "name"), 19),
    (("components", 0, "routes", 0, "port"), 21),
    (("components", 0, "routes", 1), 22),
    (("components", 0, "routes", 1, "port"), 23),
    (("components", 0, "health"), 24),
    (("components", 0, "health", "type"), 25),
    (("components", 1), 27),
    (("components", 1, "env", "B"), 29),
    (("components", 1, "env", "c", "d"), 29),
    (("components", 1, "list"), 30),
    (("components", 1, "list", 0), 31),
    (("components", 1, "list", 1, 1), 32),
    (("components", 1, "list", 2, "x"), 33),
    (("components", 1, "list", 3, "y"), 33),
    (("components", 1, "list", 4), 34),
    (("components", 1, "list", 6), 35),
    (("components", 1, "routes", 0, "port"), 38),
]


@pytest.mark.parametrize(("path", "line"), LINES)
def test_every_way_to_write_a_key_has_a_line(path: Path, line: int) -> None:
    tomli.loads(EXAMPLE)
    assert index(EXAMPLE)[path] == line


def test_windows_line_ends_count_once() -> None:
    assert index("a = 1\r\nb = 2\r\n")[("b",)] == 2


@pytest.mark.parametrize("text", ["", "[", "[[", "a", "= 1", "a = ", "a = [", "a = {", 'a = """', "a = '''", "]", "{}"])
def test_text_that_is_not_toml_does_not_stop_it(text: str) -> None:
    assert index(text + "\n\nlast = 1\n").get(("last",), 3) == 3


@settings(deadline=None)
@given(st.text(alphabet="ab.=[]{}\"'\\#,\n 1", max_size=80))
def test_any_text_is_survived(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in index(text).values())


# ---- documents whose lines are known because we write them ----------------------------------------------------------

KEYS = st.sampled_from(["a", "bb", "c-c", "d_1", "e.e", "ü", "x y"])
SCALARS = st.sampled_from(["1", '"s"', "'''\nl\n'''", '"""\n[x]\n\\"""\n"""', "true", "2020-01-01 00:00:00", "'['"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)
DOCUMENTS = st.tuples(TABLES, st.dictionaries(KEYS, st.lists(TABLES, min_size=1, max_size=3) | TABLES, max_size=3))


class Writer:
    """Writes TOML and remembers the line of every key and element it wrote."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[Path, int] = {}

    def note(self, path: Path) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def value(self, path: Path, value: Any) -> None:
        if isinstance(value, str):
            self.text += value
        elif isinstance(value, list):
            self.text += "[\n"
            for at, inner in enumerate(value):
                self.note((*path, at))
                self.value((*path, at), inner)
                self.text += ", # ]\n"
            self.text += "]"
        else:
            self.text += "{ "
            for at, (key, inner) in enumerate(value.items()):
                self.text += ", " if at else ""
                self.pair((*path, key), key, inner)
            self.text += " }"

    def pair(self, path: Path, key: str, value: Any) -> None:
        self.note(path)
        self.text += f'"{key}" = '
        self.value(path, value)

    def table(self, path: Path, table: dict[str, Any]) -> None:
        for key, value in table.items():
            self.pair((*path, key), key, value)
            self.text += "  # [comment]\n\n"

    def document(self, top: dict[str, Any], tables: dict[str, Any]) -> None:
        self.table((), {key: value for key, value in top.items() if key not in tables})
        for key, value in tables.items():
            self.note((key,))
            for at, table in enumerate(value if isinstance(value, list) else [value]):
                path: Path = (key, at) if isinstance(value, list) else (key,)
                self.note(path)
                self.text += f'[["{key}"]]\n' if isinstance(value, list) else f'["{key}"]\n'
                self.table(path, table)


@settings(deadline=None)
@given(DOCUMENTS)
def test_the_line_of_every_key_of_a_generated_document_is_found(
    document: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    writer = Writer()
    writer.document(*document)
    tomli.loads(writer.text)
    found = index(writer.text)
    assert {path: found.get(path) for path in writer.lines} == writer.lines
