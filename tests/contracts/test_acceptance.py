"""Whatever keeps what was accepted: whole or not at all, only forward, and digests are checked on the way out."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.acceptance.sqlite import SqliteAcceptance
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.record import Link
from holdfast.model.revision import FORMAT, Head, Header, Tombstone, digest_of, encode_header
from holdfast.ports.acceptance import Acceptance, Accepted

Again = Callable[[], Acceptance]
FLEET = "f" * 64


@pytest.fixture(params=["memory", "sqlite"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    memory = MemoryAcceptance()
    opened: list[SqliteAcceptance] = []

    def next_process() -> Acceptance:
        if request.param == "memory":
            return memory
        opened.append(SqliteAcceptance(AgentFile(str(tmp_path / "agent.db"))))
        return opened[-1]

    yield next_process
    for acceptance in opened:
        acceptance.close()


def link(number: int, parent: str = "") -> Link:
    header = Header(FORMAT, FLEET, number, parent, "a" * 64, "b" * 64, {})
    return Link(encode_header(header), ("signature",), b"{}")


def accepted(number: int, parent: str = "", in_force: bytes = b"manifest", fleet: str = FLEET) -> Accepted:
    one = link(number, parent)
    return Accepted(fleet, Head(number, digest_of(one.header_bytes)), one, b"manifest", in_force)


def test_what_was_accepted_is_there_for_the_next_process(again: Again) -> None:
    """H-20: it goes on from cache, hub or no hub."""
    assert again().newest() is None and again().links(1, 10) == []
    content = b"content"
    digest = canonical.digest(content)
    again().accept([link(1), link(2)], accepted(2), {digest: content})
    assert again().newest() == accepted(2)
    assert again().links(1, 5) == [link(1), link(2)] and again().links(2, 2) == [link(2)]
    assert again().blob(digest) == content and again().blob("0" * 64) is None
    assert again().missing([digest, "0" * 64]) == ["0" * 64]


def test_what_was_dropped_and_said_last_is_there_for_the_next_process(again: Again) -> None:
    """I-37: a node's own tombstones outlive the process."""
    stones = {"service.db": Tombstone("d" * 64, 2, "w1", 3)}
    whole = replace(accepted(2), manifest=b"", said=b"manifest", unread=True, stones=stones)
    again().accept([link(1), link(2)], whole, {})
    assert again().newest() == whole


def test_it_goes_forward_or_stays_and_never_back_or_aside(again: Again) -> None:
    """W14"""
    store = again()
    store.accept([link(5)], accepted(5), {})
    store.accept([], accepted(5, in_force=b"other"), {})  # something parked was released
    newest = again().newest()
    assert newest is not None and newest.in_force == b"other"
    for bad in (accepted(4), accepted(5, "c" * 64), accepted(6, fleet="e" * 64)):
        with pytest.raises(Corrupt):
            store.accept([link(9)], bad, {"d" * 64: b"x"})
        assert again().newest() == newest
        assert again().links(9, 9) == [] and again().blob("d" * 64) is None
    store.accept([link(6)], accepted(6), {})
    assert again().newest() == accepted(6)


def test_a_link_once_kept_is_not_replaced(again: Again) -> None:
    store = again()
    store.accept([link(1)], accepted(1), {})
    store.accept([link(1, "x"), link(2)], accepted(2), {})
    assert again().links(1, 1) == [link(1)]


def test_damage_is_found_when_it_is_read(tmp_path: Path) -> None:
    file = AgentFile(str(tmp_path / "agent.db"))
    store = SqliteAcceptance(file)
    digest = canonical.digest(b"content")
    store.accept([link(1)], accepted(1), {digest: b"content"})
    with file.transaction() as db:
        db.execute("UPDATE contents SET content = x'00'")
        db.execute("UPDATE links SET body = x'00'")
        db.execute("UPDATE accepted SET body = x'00'")
    for look in (lambda: store.blob(digest), lambda: store.links(1, 1), store.newest):
        with pytest.raises(Corrupt):
            look()
    store.close()
