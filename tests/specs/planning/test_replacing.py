"""Another machine takes the place of a node: one revision has its key, and the backups that it restores."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.model.applied import Applied
from holdfast.model.fleet import Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Move
from holdfast.model.revision import NodeIdentity, Table, decode_table
from holdfast.planning import replacing
from holdfast.planning.formats import RETURNS
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.replacing import Return
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.succession import judge
from holdfast.planning.unsound import Unsound
from holdfast.status import moves
from tests.fleets.build import edge_fleet, joined, public_service, small_service
from tests.specs.planning.test_plan import after

OLD, NEW = joined(edge_fleet()), NodeIdentity("", "b" * 64, b"")
BACKUP = "c" * 64


def kept(name: str, protect: Any = "backup", **changed: Any) -> Any:
    service = public_service(name) if name == "shop" else small_service(name)
    part = replace(service.components[0], volumes=(Volume("book", "/book", protect=protect),))
    return replace(service, components=(part,), node="w1", **changed)


def declared() -> Any:
    services = {
        "shop": kept("shop"),
        "diary": kept("diary"),
        "vault": kept("vault", tier="core"),
        "cache": kept("cache", protect="none"),
        "plain": replace(small_service("plain"), node="w1"),
        "other": replace(small_service("other"), node="w2"),
    }
    return edge_fleet(services)


BASE = after(plan(declared(), None, Inputs({}, {}, identities=OLD)))
FRESH = joined(edge_fleet(workers=("new",)))["new"]


def machine(base: Applied = BASE) -> Applied:
    return replacing.rekeyed("w1", FRESH, "", base)


def returned(*names: str, base: Applied = BASE, **more: Any) -> Any:
    found = [Return(name, BACKUP, b"key") for name in names]
    return replacing.plan_returns("w1", machine(base), found, {}, base, **more)


def table_of(found: Any) -> Table:
    assert found.candidate is not None
    return decode_table(found.candidate.table)


def test_core_services_come_first_then_the_others_by_name() -> None:
    assert replacing.in_order("w1", BASE) == ("vault", "cache", "diary", "plain", "shop")
    assert [name for name in replacing.in_order("w1", BASE) if replacing.has_backups(name, BASE)] == [
        "vault",
        "diary",
        "shop",
    ]


def test_one_revision_has_the_key_and_every_backup_by_digest_and_needs_grade_destroy() -> None:
    found = returned("vault", "diary", "shop")
    table = table_of(found)
    assert table.entries["node.w1"].identity == FRESH and found.grade == "destroy"
    turns = {name: table.entries[f"service.{name}"].move for name in ("vault", "diary", "shop")}
    assert turns == {
        "vault": Move("w1", BACKUP, b"key", turn=1),
        "diary": Move("w1", BACKUP, b"key", turn=3),
        "shop": Move("w1", BACKUP, b"key", turn=5),
    }
    assert all(table.entries[f"service.{name}"].epoch == 2 for name in turns), "the copies of the old machine are over"
    assert table.entries["service.plain"] == BASE.table.entries["service.plain"]
    asked = [demand.reason for change in found.changes for demand in change.demands]
    assert "replaces the node's key" in asked
    assert "starts it again with a backup on w1; what it had since" in asked


def test_the_hub_judges_it_as_planned_and_the_directory_matches_it() -> None:
    found = returned("vault", "diary", "shop")
    contents = {**found.candidate.blobs, **BASE.contents}
    judged = judge(BASE.table, table_of(found), contents, contents, 2)
    assert judged.grade == "destroy"
    now = after(found, BASE)
    assert not plan(declared(), now, Inputs({}, {}, identities={"w1": FRESH})).changes, "`plan` says No changes"


def test_the_edge_goes_on_to_the_same_address_and_waits_for_the_node() -> None:
    """A node that is dead is given up and fenced; this one is neither."""
    found = returned("shop")
    blobs = [blob for blob in found.candidate.blobs.values() if b'"settings":' in blob]
    routes = [route for blob in blobs for route in msgspec.json.decode(blob, type=NodeManifest).edge.values()]
    assert [(route.node, route.fenced) for route in routes] == [("w1", "")]
    assert moves.given_up(BASE.table, table_of(found)) == frozenset()


def changed(**fields: Any) -> Table:
    table = table_of(returned("diary"))
    entry = table.entries["service.diary"]
    return replace(table, entries={**table.entries, "service.diary": replace(entry, **fields)})


@pytest.mark.parametrize(
    "fields",
    [
        {"move": Move("w1", turn=1)},
        {"move": Move("w1", kept=True)},
        {"move": Move("w1", back=True)},
        {"move": Move("w2", BACKUP)},
        {"epoch": 1},
        {"epoch": 3},
    ],
)
def test_a_service_stays_where_it_is_and_begins_again_only_with_a_backup_and_the_next_epoch(fields: Any) -> None:
    contents = {**returned("diary").candidate.blobs, **BASE.contents}
    with pytest.raises(Unsound):
        judge(BASE.table, changed(**fields), contents, contents, 2)


def test_a_service_without_data_cannot_begin_again() -> None:
    table = table_of(returned("diary"))
    plain = replace(table.entries["service.plain"], epoch=2, move=Move("w1", BACKUP))
    contents = {**returned("diary").candidate.blobs, **BASE.contents}
    with pytest.raises(Unsound, match="which does not move"):
        judge(BASE.table, replace(table, entries={**table.entries, "service.plain": plain}), contents, contents, 2)


def test_a_machine_with_an_older_release_is_refused() -> None:
    with pytest.raises(Conflict, match="the agent on w1 is of an older release"):
        returned("diary", reads={"w1": RETURNS - 1})
    returned("diary", reads={"w1": RETURNS, "w2": 1, "e1": 1})


def test_another_backup_and_another_machine_begin_in_a_newer_epoch() -> None:
    now = after(returned("diary"), BASE)
    again = table_of(replacing.plan_returns("w1", now, [Return("diary", "d" * 64, b"k")], {}, now, {}, True))
    entry = again.entries["service.diary"]
    assert (entry.epoch, entry.move) == (3, Move("w1", "d" * 64, b"k", aside=True, turn=3))


def test_a_rollback_keeps_the_new_machine_and_where_the_data_came_from() -> None:
    now = after(returned("diary"), BASE)
    back = plan_rollback(BASE.table, now)
    assert not back.changes
