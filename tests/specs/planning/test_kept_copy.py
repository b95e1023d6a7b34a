"""A service goes on with a copy that a node kept: what the revision says, and who must sign it."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.model.applied import Applied
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Move
from holdfast.model.revision import Entry, Table, decode_table
from holdfast.model.route import PublicRoute
from holdfast.planning.formats import MOVES, require_move
from holdfast.planning.kept_copy import plan_kept
from holdfast.planning.moving import plan_abort
from holdfast.planning.succession import judge
from holdfast.planning.unsound import Unsound
from tests.specs.planning.test_succession import BASE

HOME = str(BASE.table.entries["service.d"].node)
OTHER = next(name for name in BASE.table.of_kind("node") if name != HOME)


def stepped(**move: object) -> str:
    """What a step to this move demands."""
    found = plan_kept("d", OTHER, BASE)
    assert found.candidate is not None
    table = decode_table(found.candidate.table)
    entry = table.entries["service.d"]
    changed = Table({**table.entries, "service.d": replace(entry, move=Move(**{"source": HOME, **move}))})  # type: ignore[arg-type]
    contents = {**found.candidate.blobs, **BASE.contents}
    judged = judge(BASE.table, changed, contents, contents, 2)
    return str([change.demands for change in judged.changes])


def test_it_needs_grade_destroy_and_no_data_moves() -> None:
    found = plan_kept("d", OTHER, BASE)
    assert found.grade == "destroy" and found.candidate is not None
    entry = decode_table(found.candidate.table).entries["service.d"]
    assert (entry.node, entry.epoch, entry.move) == (OTHER, 2, Move(HOME, kept=True))
    blobs = found.candidate.blobs.values()
    manifests = [msgspec.json.decode(blob, type=NodeManifest) for blob in blobs if b'"settings":' in blob]
    assert all(not one.handover and not one.peers for one in manifests), "its last home takes no part"
    assert "goes on with an older copy" in stepped(kept=True) and "older copy" not in stepped()


@pytest.mark.parametrize("also", [{"backup": "c" * 64}, {"back": True}, {"aside": True}])
def test_a_copy_that_is_kept_has_no_other_source(also: dict[str, object]) -> None:
    with pytest.raises(Unsound):
        stepped(kept=True, **also)


def test_an_older_agent_cannot_read_it_and_there_is_nothing_to_take_back() -> None:
    with pytest.raises(Conflict, match="of an older release"):
        plan_kept("d", OTHER, BASE, {OTHER: MOVES - 1})
    plan_kept("d", OTHER, BASE, {HOME: MOVES - 1})
    public = {"d.example.com": PublicRoute("main", "http", "e1", "main.d.holdfast.internal")}
    with pytest.raises(Conflict, match="the agent on e1 is of an older release"):
        require_move(Entry("a" * 64, OTHER, 2, public=public, move=Move(HOME, "c" * 64)), {"e1": MOVES - 1})
    require_move(Entry("a" * 64, OTHER, 2, public=public, move=Move(HOME)), {"e1": MOVES - 1})
    table = Table(
        {**BASE.table.entries, "service.d": replace(BASE.table.entries["service.d"], move=Move("w9", kept=True))}
    )
    with pytest.raises(Conflict, match="is not being moved"):
        plan_abort("d", replace(BASE, table=table))


THIRD = "w9"


@pytest.mark.parametrize(
    ("move", "why"),
    [
        ({"source": THIRD}, "the table has it move from"),
        ({"source": OTHER}, "the table has it move from"),
        ({"source": THIRD, "kept": True}, "the table has it move from"),
        ({"source": THIRD, "backup": "c" * 64}, "the table has it move from"),
        ({"back": True}, "could take back"),
        ({"key": b"k"}, "a key and no backup"),
    ],
)
def test_a_move_says_where_the_data_is_and_what_it_begins_with(move: dict[str, object], why: str) -> None:
    """A hub and a second operator judge it by the table alone."""
    with pytest.raises(Unsound, match=why):
        stepped(**move)


def test_only_the_last_handover_is_taken_back_and_only_to_its_source() -> None:
    worker = next(n for n in BASE.table.of_kind("node") if n != HOME and "worker" in BASE.node(n).roles)
    entry = replace(BASE.table.entries["service.d"], node=worker, epoch=2, move=Move(HOME))
    moved = replace(BASE, table=Table({**BASE.table.entries, "service.d": entry}, BASE.table.tombstones))

    def back(to: str, now: Applied, **move: object) -> None:
        was = now.table.entries["service.d"]
        again = replace(was, node=to, epoch=was.epoch + 1, move=Move(**{"source": str(was.node), **move}))  # type: ignore[arg-type]
        table = Table({**now.table.entries, "service.d": again}, now.table.tombstones)
        judge(now.table, table, now.contents, now.contents, 3)

    back(HOME, moved, back=True)
    for was in (
        replace(entry, move=Move(HOME, backup="c" * 64)),
        replace(entry, move=Move(HOME, kept=True)),
        replace(entry, move=Move(HOME, back=True)),
        replace(entry, move=Move(THIRD)),
    ):
        table = Table({**moved.table.entries, "service.d": was}, moved.table.tombstones)
        with pytest.raises(Unsound, match="could take back"):
            back(HOME, replace(moved, table=table), back=True)


def test_a_service_that_does_not_move_has_no_new_move() -> None:
    entry = BASE.table.entries["service.d"]
    table = Table({**BASE.table.entries, "service.d": replace(entry, move=Move(OTHER))}, BASE.table.tombstones)
    with pytest.raises(Unsound, match="which does not move"):
        judge(BASE.table, table, BASE.contents, BASE.contents, 2)
