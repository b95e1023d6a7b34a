"""The newest backup that this node signed is found among those of other nodes, damaged ones, and mere claims."""

import asyncio
from hashlib import sha256

import pytest

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.agent.backups import own_receipts
from holdfast.agent.backups.own_receipts import OwnReceipts
from holdfast.agent.backups.store import Store
from holdfast.model import backup_key
from holdfast.model.backup import Receipt, Stored
from holdfast.trust import receipts
from tests.fleets.desks import key_of

FLEET = "f" * 64


class Place:
    def __init__(self) -> None:
        self.target = MemoryTarget()
        self.own = OwnReceipts(key_of("w1"), (FLEET, "w1"))
        self.got: list[str] = []
        get = self.target.get

        async def noted(key: str) -> bytes | None:
            self.got.append(key)
            return await get(key)

        self.target.get = noted  # type: ignore[method-assign]

    def put(self, sequence: int, node: str = "w1") -> str:
        """The digest of the receipt."""
        made = Receipt(1, FLEET, "web", node, sequence, 1, 1, 1000, "order", Stored("a" * 64, 1), (), 1, 1)
        content = receipts.sign(key_of(node), made)
        self.target.objects[backup_key.receipt(FLEET, "web", sequence, content)] = content
        return sha256(content).hexdigest()

    def newest(self, last: str = "") -> int:
        """Its number; 0 without one."""

        async def found() -> int:
            store = Store(self.target, FLEET)
            one = await self.own.newest(store, await store.receipts("web"), last)
            return one.receipt.sequence if one is not None else 0

        self.got.clear()
        return asyncio.run(found())


def test_it_is_the_one_with_the_greatest_number_of_those_that_this_node_signed() -> None:
    place = Place()
    assert place.newest() == 0
    for sequence in (1, 2, 3):
        place.put(sequence)
    for sequence in (2, 3, 50, 51):
        place.put(sequence, "w2")
    assert place.newest() == 3 and place.newest(last="a" * 64) == 3


def test_a_receipt_of_another_node_is_read_once() -> None:
    place = Place()
    place.put(1)
    for sequence in range(10, 20):
        place.put(sequence, "w2")
    assert place.newest() == 1 and len(place.got) == 11
    assert place.newest() == 1 and len(place.got) == 1
    place.put(2)
    assert place.newest() == 2


def test_a_damaged_one_hides_no_older_one_and_counts_when_it_is_whole_again() -> None:
    place = Place()
    place.put(1)
    digest = place.put(2)
    (key,) = [key for key in place.target.objects if key.endswith(digest)]
    whole, place.target.objects[key] = place.target.objects[key], b"rotten"
    assert place.newest() == 1
    place.target.objects[key] = whole
    assert place.newest() == 2


def test_many_of_other_nodes_hide_no_own_one_and_are_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_receipts, "READ", 4)
    place = Place()
    known = place.put(1)
    place.put(2)
    for sequence in range(10, 20):
        place.put(sequence, "w2")
    assert place.newest(known) == 1 and len(place.got) == 5, "that of the book, meanwhile"
    assert place.newest(known) == 1
    assert place.newest(known) == 2, "the agent ended before it was in the book"
    again = Place()
    for sequence in range(10, 20):
        again.put(sequence, "w2")
    assert [again.newest(known) for _ in range(4)] == [0, 0, 0, 0]


def test_what_is_remembered_of_other_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_receipts, "OTHERS_MAX", 3)
    place = Place()
    for sequence in range(10, 20):
        place.put(sequence, "w2")
    place.newest()
    place.newest()
    assert len(place.got) >= 7
