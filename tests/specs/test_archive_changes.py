"""What an update does to each thing (reconcile/archive_changes.py), and how large parts are."""

from typing import Any

import pytest

from holdfast.model.archive import PARTS_MAX, Entry, Part
from holdfast.reconcile.archive import part_bytes_for
from holdfast.reconcile.archive_changes import Deed, deed, parts_to_write

KIB64 = 65_536


def made(type: str = "file", **more: Any) -> Entry:
    return Entry(**{"path": "x", "type": type, "mode": 0o644, "uid": 0, "gid": 0, "mtime_ns": 0, **more})


def long(*digests: str, **more: Any) -> Entry:
    parts = tuple(Part(KIB64, digest, f"pack of {digest}") if digest else Part(KIB64) for digest in digests)
    return made(size=KIB64 * len(parts), parts=parts, **more)


ONE, TWO = made(size=1, sha256="one", pack="a"), made(size=1, sha256="two", pack="a")
LINK, OTHER = made(link="f"), made(link="g")
SYMLINK, FOLDER = made("symlink", target="a"), made("dir")
CASES: dict[str, tuple[list[Entry | None], Entry | None, Deed]] = {
    "gone": ([ONE], None, Deed.REMOVE),
    "new": ([None], ONE, Deed.MAKE),
    "another pack": ([ONE], made(size=1, sha256="one", pack="b"), Deed.SAME),
    "another content": ([ONE], TWO, Deed.REWRITE),
    "another mode": ([ONE], made(size=1, sha256="one", pack="a", mode=0o600), Deed.DRESS),
    "other holes": ([ONE], made(size=1, sha256="one", pack="a", data=((0, 0),)), Deed.REWRITE),
    "a file becomes a link": ([ONE], LINK, Deed.MAKE),
    "a link becomes a file": ([LINK], ONE, Deed.MAKE),
    "a link to the same file": ([LINK], made(link="f", mtime_ns=7), Deed.SAME),
    "a link to another file": ([LINK], OTHER, Deed.MAKE),
    "a file becomes a symlink": ([ONE], SYMLINK, Deed.MAKE),
    "a symlink elsewhere": ([SYMLINK], made("symlink", target="b"), Deed.MAKE),
    "a directory's time": ([FOLDER], made("dir", mtime_ns=7), Deed.DRESS),
    "parts": ([long("a", "b")], long("a", "c"), Deed.PARTS),
    "a short file becomes long": ([ONE], long("a", "b"), Deed.REWRITE),
    # after an interruption: what was, and what an update was on its way to
    "interrupted, back": ([ONE, TWO], ONE, Deed.REWRITE),
    "interrupted, on": ([ONE, TWO], TWO, Deed.REWRITE),
    "interrupted, made": ([None, ONE], ONE, Deed.MAKE),
    "interrupted, removed": ([ONE, None], ONE, Deed.MAKE),
    "interrupted, a symlink": ([SYMLINK, ONE], SYMLINK, Deed.MAKE),
    "interrupted, dressed": ([made(mode=0o600), made()], made(), Deed.DRESS),
    "interrupted, parts": ([long("a", "b"), long("a", "c")], long("a", "b"), Deed.PARTS),
    "interrupted, not in parts": ([long("a", "b"), ONE], long("a", "b"), Deed.REWRITE),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_done(name: str) -> None:
    olds, new, wanted = CASES[name]
    assert deed(olds, new, has_same_parts=True) is wanted


def test_parts_of_another_size_are_not_compared() -> None:
    assert deed([long("a")], long("b"), has_same_parts=False) is Deed.REWRITE


def test_parts_that_differ_in_any_tree_are_written() -> None:
    assert parts_to_write([long("a", "b", "c")], long("a", "x", "c", "d"), KIB64) == [1, 3]
    assert parts_to_write([long("a", "b", "c"), long("x", "b", "c")], long("a", "b", "c"), KIB64) == [0]
    assert parts_to_write([long("a", "b")], long("a"), KIB64) == []


def test_parts_with_other_holes_are_written() -> None:
    before = long("a", "b", "c", data=((0, 10), (KIB64, 2 * KIB64)))
    after = long("a", "b", "c", data=((0, 20), (KIB64, 2 * KIB64)))
    assert parts_to_write([before], after, KIB64) == [0]
    assert parts_to_write([long("a", "", data=((0, KIB64),))], long("a", "b"), KIB64) == [1]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [(0, KIB64), (4 << 30, KIB64), ((4 << 30) + 1, 2 * KIB64), (1 << 40, 4 << 20), (1 << 50, 4 << 20)],
)
def test_parts_are_small_as_long_as_they_are_not_too_many(size: int, wanted: int) -> None:
    assert part_bytes_for(size) == wanted
    assert size > 1 << 40 or size <= wanted * PARTS_MAX
