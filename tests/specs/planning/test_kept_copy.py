"""A service goes on with a copy that a node kept: what the revision says, and who must sign it."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict
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
