"""What goes into an archive, and what of it is stored again (M-91, M-92, issue 15)."""

import pytest

from holdfast.model.archive import Entry, PackRow, Part
from holdfast.ports.archive import Rules
from holdfast.reconcile import archive
from holdfast.reconcile.archive import Usable

A, B = "a" * 64, "b" * 64


def entry(**more: object) -> Entry:
    values = {"path": "f", "type": "file", "mode": 0o644, "uid": 0, "gid": 0, "mtime_ns": 0, **more}
    return Entry(**values)  # type: ignore[arg-type]


def usable(*rows: PackRow, alive: tuple[str, ...] | None = None) -> Usable:
    return Usable(rows, alive)


def row(digest: str, live: int = 100) -> PackRow:
    return PackRow(digest, 100, 100, live)


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("app.toml", True),
        ("deep/er/app.db", True),
        ("tls/key.pem", True),
        ("app.db-wal", False),
        ("readme", False),
        ("x.toml/readme", False),
        ("vol/readme", True),
        ("volume/readme", False),
        ("extra/readme", True),
        ("logs/a.csv", True),
    ],
)
def test_m91_the_default_set_and_what_is_named(path: str, taken: bool) -> None:
    rules = Rules(whole=False, volumes=("vol",), include=("extra", "*.csv"))
    assert archive.is_taken(rules, path) is taken
    assert archive.is_taken(Rules(whole=True), path)


@pytest.mark.parametrize(
    ("pattern", "path", "excluded"),
    [
        ("cache", "cache", True),
        ("cache", "cache/deep/x", True),
        ("cache", "data/cache", False),
        ("cache/", "cache/x", True),
        ("/cache", "cache/x", True),
        ("data/*/tmp", "data/web/tmp/x", True),
        ("data/*/tmp", "data/web/x", False),
        ("*.log", "a.log", True),
        ("*.log", "deep/er/a.log", True),
        ("*.log", "a.log.gz", False),
        ("[ab]", "deep/a", True),
    ],
)
def test_m92_exclude_is_relative_to_the_services_directory(pattern: str, path: str, excluded: bool) -> None:
    assert archive.is_excluded(Rules(exclude=(pattern,)), path) is excluded


def test_a_file_is_unchanged_only_if_all_its_packs_are_usable() -> None:
    before = entry(seen=(1, 2), size=9, parts=(Part(4, A, A), Part(4), Part(1, B, B)))
    assert archive.is_unchanged(before, (1, 2), usable(row(A), row(B)))
    assert not archive.is_unchanged(before, (1, 3), usable(row(A), row(B)))
    assert not archive.is_unchanged(before, (1, 2), usable(row(A)))
    assert not archive.is_unchanged(before, (1, 2), usable(row(A), row(B), alive=(A,)))
    assert not archive.is_unchanged(before, (1, 2), usable(row(A), row(B, live=49))), "it is to be written again"
    assert not archive.is_unchanged(entry(), (), usable()), "what has no numbers is read"
    assert not archive.is_unchanged(None, (1, 2), usable())


def test_content_that_is_stored_already_keeps_its_pack() -> None:
    before = entry(sha256=A, pack=B, size=1)
    assert archive.keeps(before, A, usable(row(B))) == B
    assert archive.keeps(before, B, usable(row(B))) == ""
    assert archive.keeps(before, A, usable()) == ""
    assert archive.keeps(None, A, usable(row(B))) == ""
    long = entry(parts=(Part(4, A, B), Part(4)))
    assert archive.keeps_part(long, 0, A, usable(row(B))) == B
    assert archive.keeps_part(long, 0, B, usable(row(B))) == ""
    assert archive.keeps_part(long, 1, "", usable(row(B))) == ""
    assert archive.keeps_part(long, 2, A, usable(row(B))) == ""


@pytest.mark.parametrize(("live", "dead"), [(0, True), (49, True), (50, False), (100, False)])
def test_a_pack_of_which_less_than_half_is_needed_is_written_again(live: int, dead: bool) -> None:
    assert archive.is_mostly_dead(row(A, live)) is dead
