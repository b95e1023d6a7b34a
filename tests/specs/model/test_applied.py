"""Applied decodes a resource once, and what it keeps is no part of its value."""

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.applied import Applied, affected
from holdfast.model.fleet import FleetDocument, Node, Settings
from holdfast.model.ids import FLEET
from holdfast.model.revision import NO_HEAD, Entry, Header, Table
from holdfast.model.trust import Trust

DOCUMENTS = {
    FLEET: canonical.encode(FleetDocument(Settings("f"))),
    "node.w1": canonical.encode(Node("w1", ("worker",))),
}
BROKEN = b'{"roles":'


class Counted(Mapping[str, bytes]):
    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(contents)
        self.reads = 0

    def __getitem__(self, digest: str) -> bytes:
        self.reads += 1
        return self.contents[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)


def applied(documents: Mapping[str, bytes] = DOCUMENTS) -> Applied:
    contents = Counted({canonical.digest(text): text for text in documents.values()})
    table = Table({address: Entry(canonical.digest(text)) for address, text in documents.items()})
    header = Header(format=1, fleet="f", number=1, parent="", trust="", resources="", manifests={})
    return Applied(NO_HEAD, header, table, Trust(()), contents)


def reads(one: Applied) -> int:
    assert isinstance(one.contents, Counted)
    return one.contents.reads


def test_each_resource_is_read_once() -> None:
    one = applied()
    assert one.fleet() is one.fleet() and one.node("w1") is one.node("w1")
    assert one.node("w1").roles == ("worker",) and reads(one) == 2


def test_nothing_is_read_before_it_is_used() -> None:
    assert reads(applied()) == 0


def test_what_was_decoded_does_not_change_the_value() -> None:
    one = applied()
    before = repr(one)
    one.fleet()
    assert one == applied() and repr(one) == before


def test_another_table_does_not_answer_with_what_was_decoded_before() -> None:
    one = applied()
    one.node("w1")
    moved = canonical.encode(Node("w1", ("edge",)))
    two = replace(one, table=applied({"node.w1": moved}).table, contents={canonical.digest(moved): moved})
    assert two.node("w1").roles == ("edge",)


def test_damage_is_an_error_each_time_until_it_is_repaired() -> None:
    one = applied({"node.w1": BROKEN})
    for _ in range(2):
        with pytest.raises(Corrupt) as refused:
            one.node("w1")
        assert refused.value.code == "unreadable"
    lost = replace(applied(), contents={})
    with pytest.raises(Corrupt) as missing:
        lost.fleet()
    assert missing.value.code == "blob_missing"


def test_a_manifest_that_is_new_changed_or_gone_affects_its_node() -> None:
    before = {"same": "1", "changed": "1", "gone": "1"}
    assert affected(before, {"same": "1", "changed": "2", "new": "1"}) == ("changed", "gone", "new")
    assert affected(before, before) == ()
