"""Purged data is kept aside for seven days of time that this agent has observed, whatever a clock says."""

import asyncio
from contextlib import suppress

import pytest

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.services.data.asides import KEPT_S, LOOK_S, PREFIX, STEP_S_MAX, Aside, Asides
from holdfast.errors import Failed, SignatureRequired
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import Disposable
from tests.fleets.orders import purge

PURGE = "a" * 32
PATH = f"/memory/.purging-{PURGE}-web"
COPY = "/memory/.checkpoints/web/one"  # former path of a checkpoint that is set aside with it


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.wall_s, self.running_s = 1e9, 50.0

    def now_s(self) -> float:
        return self.wall_s

    def monotonic_s(self) -> float:
        return self.running_s

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits")


class Node:
    def __init__(self) -> None:
        self.clock, self.journal, self.storage = Hands(), MemoryJournal(), MemoryStorage("w1")
        self.storage.contents = {f".purging-{PURGE}-web": {"a": b"1"}}
        self.start()
        self.journal.note_made(COPY, "op", True)
        self.asides.keep(Aside("web", PURGE, PATH, 1, 1, copies=(COPY,)), "op")

    def start(self) -> None:
        self.asides = Asides(storage=self.storage, journal=self.journal, clock=self.clock, node="w1")

    def looks(self, times: int, every_s: float = LOOK_S) -> None:
        for _ in range(times):
            self.clock.running_s += every_s
            asyncio.run(self.asides.look())

    @property
    def is_there(self) -> bool:
        return bool(self.storage.contents)


WHOLE = int(KEPT_S / LOOK_S)


def test_what_was_deleted_is_not_listed_as_left_by_a_lost_journal_while_the_next_one_is_deleted() -> None:
    node, other = Node(), "b" * 32
    node.storage.contents[f".purging-{other}-web"] = {"a": b"1"}
    node.asides.keep(Aside("web", other, f"/memory/.purging-{other}-web", 1, 1), "op")
    asyncio.run(node.asides.look_at_disk())
    dispose, listed = node.storage.dispose, []

    def slow(proof: Disposable) -> None:
        listed.append([one.purge for one in node.asides.found])
        dispose(proof)

    node.storage.dispose = slow  # type: ignore[method-assign]
    node.looks(WHOLE)
    assert listed == [[PURGE, other], [other]] and node.asides.found == ()


def test_what_cannot_be_deleted_keeps_nothing_else() -> None:
    node, other = Node(), "b" * 32
    node.storage.contents[f".purging-{other}-web"] = {"a": b"1"}
    node.asides.keep(Aside("web", other, f"/memory/.purging-{other}-web", 1, 1), "op")
    dispose = node.storage.dispose

    def refuse(proof: Disposable) -> None:
        if proof.order == PURGE:
            raise Failed("it is a mount point", remedy="unmount it")
        dispose(proof)

    node.storage.dispose = refuse  # type: ignore[method-assign]
    node.looks(WHOLE - 1)
    with pytest.raises(Failed):
        node.looks(1)
    assert [one.purge for one in node.asides.found] == [PURGE] and len(node.storage.contents) == 1


def test_it_is_deleted_after_seven_days_and_not_before() -> None:
    node = Node()
    node.looks(WHOLE - 1)
    node.asides.keep(Aside("web", PURGE, PATH, 1, 1, copies=(COPY,)), "op")  # the same order, after a crash
    assert node.is_there and len(node.asides.found) == 1
    node.looks(1)
    assert not node.is_there and node.asides.found == () and node.journal.facts(PREFIX) == {}
    assert node.journal.made_by(PATH) is node.journal.made_by(COPY) is None


@pytest.mark.parametrize("jump_s", [1e8, -1e8])
def test_the_wall_clock_does_not_count(jump_s: float) -> None:
    node = Node()
    node.clock.wall_s += jump_s
    node.looks(WHOLE - 1)
    assert node.is_there
    node.looks(1)
    assert not node.is_there


def test_a_leap_of_the_monotonic_clock_counts_as_one_long_step_and_a_restart_as_none() -> None:
    node = Node()
    node.looks(1, KEPT_S * 10)
    assert node.is_there and node.asides.of("web", PURGE).waited_s == STEP_S_MAX
    node.clock.running_s = 3.0  # another boot
    node.start()
    node.looks(WHOLE - 1 - int(STEP_S_MAX / LOOK_S))
    assert node.is_there
    node.looks(1)
    assert not node.is_there


def test_without_this_agents_own_mark_nothing_is_deleted() -> None:
    """Only the gate lets it go, and the gate believes the journal alone."""
    node = Node()
    node.journal.forget_made(PATH)
    node.looks(WHOLE + 10)
    assert node.is_there


# ---- a lost journal


def after_a_lost_journal() -> Node:
    node = Node()
    node.journal = MemoryJournal()
    node.start()
    asyncio.run(node.asides.look_at_disk())
    return node


def test_after_a_lost_journal_it_is_listed_without_a_time_and_is_not_deleted() -> None:
    node = after_a_lost_journal()
    (found,) = node.asides.found
    assert (found.name, found.purge, found.path, found.size_bytes, found.files) == ("web", PURGE, PATH, 1, 1)
    assert found.until_s == 0.0, "the node does not know how long it was there"
    node.looks(WHOLE + 10)
    assert node.is_there


def test_after_a_lost_journal_it_can_be_brought_back_and_an_order_to_destroy_now_deletes_it() -> None:
    node = after_a_lost_journal()
    assert node.asides.of("web", PURGE).path == PATH
    for service, purge_id in (("db", PURGE), ("web", "b" * 32)):
        with pytest.raises(Failed):
            node.asides.of(service, purge_id)
    for given in ({}, {"now": "yes"}):
        order = VerifiedOrder(purge(target="data.web", node="w1"), given, "destroy", ())
        assert node.is_there
        with suppress(SignatureRequired):
            assert asyncio.run(node.asides.destroy("web", order)) == 1, "the order says how much it deleted"
    asyncio.run(node.asides.look_at_disk())
    assert not node.is_there and node.asides.found == ()


def test_what_is_being_deleted_is_not_taken_for_what_a_lost_journal_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take hours, and a purge with `now` is not in the list of what is kept."""
    node, seen = after_a_lost_journal(), []
    dispose = node.storage.dispose

    def slow(proof: Disposable) -> None:
        asyncio.run(node.asides.look_at_disk())
        seen.append(node.asides.found)
        dispose(proof)

    monkeypatch.setattr(node.storage, "dispose", slow)
    order = VerifiedOrder(purge(target="data.web", node="w1"), {"now": "yes"}, "destroy", ())
    asyncio.run(node.asides.destroy("web", order))
    assert seen == [()]


def test_what_could_not_be_deleted_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    node = after_a_lost_journal()

    def broken(proof: Disposable) -> None:
        raise Failed("the disk has an error", remedy="replace it")

    monkeypatch.setattr(node.storage, "dispose", broken)
    order = VerifiedOrder(purge(target="data.web", node="w1"), {"now": "yes"}, "destroy", ())
    with pytest.raises(Failed):
        asyncio.run(node.asides.destroy("web", order))
    assert [one.purge for one in node.asides.found] == [PURGE]


def test_what_the_journal_knows_is_listed_once() -> None:
    node = Node()
    asyncio.run(node.asides.look_at_disk())
    (found,) = node.asides.found
    assert found.until_s > 0.0
