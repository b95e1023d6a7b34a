"""Paths in a manifest: any bytes, one spelling, and an order that is the order of the walk (R12)."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corrupt
from holdfast.model import archive
from holdfast.model.archive import Entry, Header, Purpose

NAMES = st.binary(min_size=1, max_size=9).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name))


@given(st.binary(max_size=40))
def test_every_path_has_one_spelling(path: bytes) -> None:
    text = archive.spelled(path)
    assert archive.spoken(text) == path
    text.encode()  # it is UTF-8: JSON can hold it


@pytest.mark.parametrize("text", ["\\", "\\x4", "\\x41", "\\xzz", "\\q", "\\xe2\\x82\\xac"])
def test_another_spelling_is_refused(text: str) -> None:
    """Two spellings of one path would be two entries for one file."""
    with pytest.raises(Corrupt):
        archive.spoken(text)


@pytest.mark.parametrize(
    "path", [b"", b"/", b"/a", b"a/", b"a//b", b".", b"a/..", b"../a", b"a/./b", b"a\0b", b"n" * 256]
)
def test_what_leads_elsewhere_is_no_path(path: bytes) -> None:
    with pytest.raises(Corrupt):
        archive.names_of(path)


Tree = dict[bytes, "Tree | None"]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(NAMES, st.none(), max_size=4), lambda inner: st.dictionaries(NAMES, st.none() | inner, max_size=4)
)


def walked(tree: Tree, above: bytes = b"") -> list[tuple[bytes, bool]]:
    found = [(above + name, False) for name in sorted(tree) if tree[name] is None]
    for name in sorted(tree):
        inner = tree[name]
        if inner is not None:
            found += [(above + name, True), *walked(inner, above + name + b"/")]
    return found


@given(TREES)
def test_the_order_of_keys_is_the_order_of_the_walk(tree: Tree) -> None:
    keys = [archive.order_key(path, is_directory) for path, is_directory in walked(tree)]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)


def test_a_line_is_one_line_and_comes_back() -> None:
    path = os.fsencode('a\n"b" ,"seen":[\\')
    entry = Entry(path=archive.spelled(path), type="file", mode=0, uid=0, gid=0, mtime_ns=-1, seen=(1, 2))
    text = archive.line(entry)
    assert text.count(b"\n") == 1 and archive.entry_of(text) == entry
    assert text.rfind(b',"seen":[') == text.find(b',"seen":['), "not inside the path"


def test_another_format_is_refused() -> None:
    header = Header(format="holdfast-archive-2", purpose=Purpose("f" * 64, "web", 1), node="w1", sequence=1)
    with pytest.raises(Corrupt, match="holdfast-archive-2"):
        archive.header_of(archive.line(header))
