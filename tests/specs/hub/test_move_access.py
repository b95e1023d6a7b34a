"""The mailbox of moves: only the two nodes of a move reach it, each with what is its own to say."""

from typing import Any

import jsonschema_rs
import pytest
from msgspec import json

from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.http.handlers.moves import ROUTES, Moves
from holdfast.hub.http.request import Request
from holdfast.hub.moves import word_rule
from holdfast.hub.moves.sweeping import Sweeping
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.model.move import FORMAT, Ready
from holdfast.model.principal import Principal
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from holdfast.planning.plan import plan
from holdfast.ports.backup_objects import StoreRoom
from holdfast.ports.backup_target import StoredObject
from holdfast.trust import moves
from holdfast.wire import codec
from holdfast.wire.backup_messages import PresentRequest
from tests.fleets.desks import key_of
from tests.fleets.exchange import asked
from tests.fleets.move_stories import keyed, notes
from tests.specs.hub.test_openapi import schema_of
from tests.specs.planning.test_plan import after

OBJECT = b"sealed"


class Hub:
    """A hub that has this revision."""

    def __init__(self, applied: Applied | None) -> None:
        self._applied = applied

    def applied(self) -> Applied | None:
        return self._applied


def before() -> Applied:
    return after(plan(keyed({"web": notes(), "other": notes()}), None))


def moving() -> Applied:
    """web moves from w1 to w2, in epoch 2; `other` stays where it is."""
    found = before()
    target = "w2" if found.table.entries["service.web"].node != "w2" else "w3"
    return after(plan_move(Wish("web", target), found, {}), found)


APPLIED = moving()
ENTRY = APPLIED.table.entries["service.web"]
TARGET, SOURCE = str(ENTRY.node), ENTRY.move.source  # type: ignore[union-attr]
THIRD = next(name for name in ("w1", "w2", "w3") if name not in (TARGET, SOURCE))
FLEET = APPLIED.fleet_id


def door(applied: Applied | None = APPLIED, objects: MemoryObjects | None = None) -> Moves:
    store = BackupStore(objects or MemoryObjects(), word_rule.check, lambda key: True)
    return Moves(Hub(applied), store)  # type: ignore[arg-type]


def ask(node: str, key: str = "", body: bytes = b"", **query: Any) -> Request:
    who = Principal("node", node, key=key_of(node).line)
    return asked({}, {"key": key, "first": 0, "prefix": "", "after": "", "limit": 5, **query}, body, who)


def pack(service: str = "web", epoch: int = 2) -> str:
    return backup_key.sealed(FLEET, service, epoch, "packs", OBJECT)


def word(node: str, epoch: int = 2) -> tuple[str, bytes]:
    content = moves.sign(key_of(node), Ready(FORMAT, FLEET, "web", epoch, node, 1))
    return backup_key.receipt(FLEET, "web", epoch * 10_000 + 1, content), content


def test_the_source_puts_data_and_both_nodes_read_it() -> None:
    found = door()
    found.put_move(ask(SOURCE, pack(), OBJECT))
    for node in (SOURCE, TARGET):
        assert found.get_move(ask(node, pack())) == OBJECT
        listed = json.decode(found.list_moves(ask(node, prefix=f"{FLEET[:16]}/web/")))
        assert [one["key"] for one in listed["objects"]] == [pack()]


def test_each_node_says_what_it_signed_itself() -> None:
    found = door()
    for node in (SOURCE, TARGET):
        found.put_move(ask(node, *word(node)))
    key, content = word(TARGET)
    with pytest.raises(Invalid, match="did not sign"):
        door().put_move(ask(SOURCE, key, content))


@pytest.mark.parametrize(
    ("node", "key", "trouble"),
    [
        (TARGET, pack(), NotPermitted),  # the target has no data to give
        (THIRD, pack(), Invalid),  # not a node of this move; it learns nothing
        (SOURCE, pack(epoch=1), NotPermitted),  # another epoch
        (SOURCE, pack("other"), Invalid),  # a service that does not move
        (SOURCE, pack().replace(FLEET[:16], "0" * 16), Invalid),  # another fleet
    ],
)
def test_nothing_else_is_put(node: str, key: str, trouble: type[HoldfastError]) -> None:
    objects = MemoryObjects()
    with pytest.raises(trouble):
        door(objects=objects).check_put(ask(node, key))
    with pytest.raises(trouble):
        door(objects=objects).put_move(ask(node, key, OBJECT))
    assert objects.listed("") == []


def test_no_other_node_reads_lists_or_deletes() -> None:
    found = door()
    found.put_move(ask(SOURCE, pack(), OBJECT))
    body = codec.write(PresentRequest((pack(),)))
    for run in (found.get_move, found.delete_move, found.present_moves, found.list_moves):
        with pytest.raises(Invalid, match="no such object"):
            run(ask(THIRD, pack(), body, prefix=f"{FLEET[:16]}/web/"))
    assert found.get_move(ask(TARGET, pack())) == OBJECT


def test_only_the_source_deletes() -> None:
    """Its closing word says for good that it handed the service over (ADR 0056): the target has no reason to delete."""
    found = door()
    key, content = word(SOURCE)
    found.put_move(ask(SOURCE, key, content))
    with pytest.raises(NotPermitted, match="may not delete"):
        found.delete_move(ask(TARGET, key))
    assert found.get_move(ask(SOURCE, key)) == content
    found.delete_move(ask(SOURCE, key))
    with pytest.raises(Invalid):
        found.get_move(ask(SOURCE, key))


def test_one_move_does_not_take_the_room_of_all() -> None:
    """The disk is also that of the backups of other nodes: its last tenth is not for what one node sends."""
    room = StoreRoom(size_bytes=1 << 40, free_bytes=100 << 30, files=0, free_files=0)
    objects = MemoryObjects()
    objects.room = lambda: room  # type: ignore[method-assign]
    found = door(objects=objects)
    held = bytes(OBJECT_BYTES_MAX)
    key = backup_key.sealed(FLEET, "web", 2, "packs", held)
    objects.objects[key] = held
    objects.listed = lambda prefix: [StoredObject(key, 90 << 30)]  # type: ignore[method-assign]
    with pytest.raises(Failed, match="last part of the disk"):
        found.put_move(ask(SOURCE, pack(), OBJECT))


def test_a_hub_without_a_disk_says_so() -> None:
    with pytest.raises(Conflict, match="passes no data on"):
        Moves(Hub(APPLIED), None).move_room(ask(SOURCE))  # type: ignore[arg-type]


def test_what_no_applied_move_needs_is_swept() -> None:
    objects = MemoryObjects()
    store = BackupStore(objects, word_rule.check, lambda key: True)
    Moves(Hub(APPLIED), store).put_move(ask(SOURCE, pack(), OBJECT))  # type: ignore[arg-type]
    Sweeping(store).committed(None, APPLIED)
    assert [one.key for one in objects.listed("")] == [pack()]
    key, content = word(SOURCE)
    Moves(Hub(APPLIED), store).put_move(ask(SOURCE, key, content))  # type: ignore[arg-type]
    back = after(plan_abort("web", APPLIED), APPLIED)
    Sweeping(store).committed(APPLIED, back)
    assert [one.key for one in objects.listed("")] == [key], "what the source said: it may have been put back since"
    Sweeping(store).committed(back, after(plan_move(Wish("web", TARGET), back, {}), back))
    assert objects.listed("") == []


@pytest.mark.parametrize("route", [route for route in ROUTES if route.answer is not None], ids=lambda r: r.run.__name__)
def test_what_is_sent_is_what_is_described(route: Any) -> None:
    body = codec.write(PresentRequest((pack(),))) if route.request is PresentRequest else OBJECT
    sent = json.decode(route.run(door(), ask(SOURCE, pack(), body, prefix=f"{FLEET[:16]}/web/")))
    jsonschema_rs.validator_for(schema_of(route, "200")).validate(sent)
