"""Copies of data are put back or deleted by an order that names them in its signed arguments, and by no other."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.gate import copies
from holdfast.gate.decide import Park
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import Checkpoint, DataDirectory, Discardable, Disposable, Purgeable, Restorable, Returnable
from tests.fleets.orders import NODE, purge

ONE = Checkpoint("web", "one", "/srv/.checkpoints/web/one", 3, 1.0)
DATA = DataDirectory("web", "/srv/web", 1, 3, 1)
PURGE = "a" * 32


def order(action: str, target: str = "data.web", node: str = NODE, **given: str) -> VerifiedOrder:
    return VerifiedOrder(purge(action=action, target=target, node=node), given, "destroy", ())


WRONG = {
    "of another action": lambda action, given: order("ping" if action == "purge" else "purge", **given),
    "for another service": lambda action, given: order(action, target="data.db", **given),
    "for another node": lambda action, given: order(action, node="w9", **given),
    "that names another thing": lambda action, given: order(action, **dict.fromkeys(given, "other")),
    "that names nothing": lambda action, given: order(action),
    "of too low a grade": lambda action, given: replace(order(action, **given), grade="apply"),
}


def restored(by: VerifiedOrder) -> object:
    return copies.may_restore(MemoryJournal(), ONE, DATA, NODE, by)


def deleted(by: VerifiedOrder) -> object:
    return copies.may_delete(MemoryJournal(), ONE, NODE, by)


def disposed(by: VerifiedOrder) -> object:
    return copies.may_dispose("web", PURGE, NODE, by)


def returned(by: VerifiedOrder) -> object:
    return copies.may_bring_back("web", PURGE, NODE, by)


ACTS = {
    "restore-checkpoint": (restored, {"checkpoint": "one"}, Restorable(ONE, purge().id)),
    "delete-checkpoint": (deleted, {"checkpoint": "one"}, Discardable(ONE)),
    "purge": (disposed, {"now": "yes"}, Disposable("web", PURGE)),
    "restore-retired": (returned, {"purge": PURGE}, Returnable("web", PURGE)),
}


@pytest.mark.parametrize("action", ACTS)
def test_an_order_that_names_it_is_enough(action: str) -> None:
    act, given, proof = ACTS[action]
    assert act(order(action, **given)) == proof


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("action", ACTS)
def test_any_other_order_is_parked(action: str, wrong: str) -> None:
    act, given, _ = ACTS[action]
    found = act(WRONG[wrong](action, given))
    assert isinstance(found, Park) and found.grade == "destroy" and found.sign.startswith("holdfast ")


SET_ASIDE = {name: wrong for name, wrong in WRONG.items() if not name.startswith("that names")}


@pytest.mark.parametrize("wrong", SET_ASIDE)
def test_an_order_sets_the_data_that_it_names_aside(wrong: str) -> None:
    assert copies.may_set_aside("web", NODE, order("purge"), is_needed=False) == Purgeable("web", purge().id)
    signed = SET_ASIDE[wrong]("purge", {})  # type: ignore[no-untyped-call]
    found = copies.may_set_aside("web", NODE, signed, is_needed=False)
    assert isinstance(found, Park) and found.grade == "destroy" and found.sign.startswith("holdfast ")


def test_no_order_purges_data_that_a_service_or_a_move_still_needs() -> None:
    found = copies.may_set_aside("web", NODE, order("purge"), is_needed=True)
    assert isinstance(found, Park) and "may not purge data.web on w1" in found.reason


def test_an_order_to_set_aside_deletes_nothing_and_one_to_adopt_brings_nothing_back() -> None:
    assert isinstance(copies.may_dispose("web", PURGE, NODE, order("purge")), Park)
    assert isinstance(copies.may_bring_back("web", PURGE, NODE, order("adopt", purge=PURGE)), Park)


def test_what_was_set_aside_expires_only_with_this_agents_own_mark() -> None:
    journal, path = MemoryJournal(), "/srv/.purging"
    assert isinstance(copies.may_expire(journal, "web", PURGE, path, NODE), Park)
    journal.note_made(path, "op", False)
    assert isinstance(copies.may_expire(journal, "web", PURGE, path, NODE), Park)
    journal.note_made(path, "op", True)
    assert copies.may_expire(journal, "web", PURGE, path, NODE) == Disposable("web", PURGE)
