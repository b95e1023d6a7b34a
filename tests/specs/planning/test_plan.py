"""What an apply would change: pure, explained, and empty the second time."""

from collections import ChainMap
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import Conflict, HoldfastError, Invalid, NotPermitted
from holdfast.model.applied import Applied
from holdfast.model.fleet import (
    Backups,
    Component,
    Fleet,
    Node,
    Service,
    Settings,
    Thresholds,
    Timeouts,
    Volume,
)
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import Head, decode_header, decode_table, digest_of
from holdfast.model.trust import of
from holdfast.planning import images
from holdfast.planning.explain import explain
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.undeploy import plan_undeploy
from holdfast.ports.registry import ABSENT
from tests.fleets.strategies import OPERATOR, fleets

IMAGE = "reg.test/x@sha256:" + "0" * 64


def after(done: Plan, before: Applied | None = None) -> Applied:
    """The state a committed plan leaves behind, without any ledger."""
    assert done.candidate is not None
    header = decode_header(done.candidate.header)
    contents: Any = ChainMap(done.candidate.blobs, before.contents if before else {})  # type: ignore[arg-type]
    trust = of((OPERATOR,), Thresholds())
    table = decode_table(done.candidate.table)
    return Applied(Head(header.number, digest_of(done.candidate.header)), header, table, trust, contents)


def fleet(**services: Service) -> Fleet:
    nodes = {"h1": Node("h1", ("hub",)), "w1": Node("w1", ("worker",)), "w2": Node("w2", ("worker",))}
    return Fleet(Settings("home"), Thresholds(), (OPERATOR,), Backups(), Timeouts(), nodes, services, {}, {})


def service(image: str = IMAGE, **more: Any) -> Service:
    volumes = more.pop("volumes", ())
    return Service((Component("web", image, volumes=volumes),), **more)


def kinds(found: Plan) -> dict[str, str]:
    return {change.address: change.kind for change in found.changes}


DATA = (Volume("data", "/data", "backup"),)


@settings(max_examples=150, deadline=None)
@given(fleets(), fleets())
def test_any_fleet_after_any_other_then_rests(one: Fleet, other: Fleet) -> None:
    """plan(A→B) applied, then plan(B→B) is empty (M-120, C-34)."""
    first = after(plan(one, None))
    step = plan(other, first)
    second = after(step, first) if step.candidate else first
    assert plan(other, second).changes == ()
    assert plan(other, second).candidate is None


@settings(max_examples=60, deadline=None)
@given(fleets(with_data=True), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(one: Fleet, chance: Any) -> None:
    """I-22: same inputs, same signed bytes, whatever the order they came in."""

    def shuffled(table: dict[str, Any]) -> dict[str, Any]:
        items = list(table.items())
        chance.shuffle(items)
        return dict(items)

    mixed = replace(
        one,
        nodes=shuffled(one.nodes),
        services=shuffled(one.services),
        storage=shuffled(one.storage),
        policies=shuffled(one.policies),
    )
    ours, theirs = plan(one, None).candidate, plan(mixed, None).candidate
    assert ours is not None and ours == theirs


@settings(max_examples=60, deadline=None)
@given(fleets(with_data=True), fleets(with_data=True))
def test_data_is_never_moved_by_a_plan(one: Fleet, other: Fleet) -> None:
    first = after(plan(one, None))
    try:
        step = plan(other, first)
    except NotPermitted as refused:
        assert refused.code == "moves_data"
        return
    assert not [change for change in step.changes if change.kind == "move" and change.blast.volumes_kept]


def test_every_kind_of_change_is_told_apart() -> None:
    before = after(
        plan(fleet(a=service(), b=service(), c=service(node="w1"), d=service(), f=service(volumes=DATA)), None)
    )
    step = plan(fleet(a=service(), b=service(active=False), c=service(node="w2"), e=service(), f=service()), before)
    assert kinds(step) == {
        "service.b": "update",
        "service.c": "move",
        "service.d": "retire",
        "service.e": "create",
        "service.f": "update",
    }
    assert [change.address for change in step.removals] == ["service.d"]
    moved = next(change for change in step.changes if change.kind == "move")
    assert (moved.moved_from, moved.node) == ("w1", "w2")
    assert {field.path: (field.before, field.after) for field in moved.fields}["epoch"] == (1, 2)


def test_a_field_level_diff_names_old_and_new() -> None:
    before = after(plan(fleet(a=service()), None))
    newer = IMAGE.replace("0" * 64, "1" * 64)
    (change,) = plan(fleet(a=service(newer)), before).changes
    assert [(f.path, f.before, f.after) for f in change.fields] == [("components[web].image", IMAGE, newer)]
    assert change.grade == "apply" and change.blast.nodes == ("w1",)


def test_a_changed_digest_under_an_unchanged_tag_is_its_own_line() -> None:
    tagged = fleet(a=service("reg.test/x:1"))
    first = after(plan(tagged, None, Inputs(image_digests={"reg.test/x:1": "sha256:" + "a" * 64})))
    moved = plan(tagged, first, Inputs(image_digests={"reg.test/x:1": "sha256:" + "b" * 64}))
    assert [field.path for change in moved.changes for field in change.fields] == ["image reg.test/x:1"]
    assert plan(tagged, first).changes == (), "a silent registry keeps what was applied"


def test_an_unresolved_tag_is_warned_about() -> None:
    (warning,) = plan(fleet(a=service("reg.test/x:1")), None).warnings
    assert "no registry gave a digest for reg.test/x:1" in warning


def test_an_image_that_its_registry_lacks_is_unknown_unless_it_is_applied_n31() -> None:
    declared = fleet(a=service("reg.test/x:9"), b=service("reg.test/y:9"))
    answers = {"reg.test/x:9": ABSENT, "reg.test/y:9": "sha256:" + "b" * 64}
    assert images.unknown(declared, answers, None) == (("a", "reg.test/x:9"),)
    assert images.unknown(declared, {}, None) == (), "silence is not absence"
    assert images.unknown(declared, answers, None, "service.b") == (), "a deploy of b is not about a"
    other = after(plan(fleet(a=service("reg.test/x:1")), None))
    assert images.unknown(declared, answers, other) == (("a", "reg.test/x:9"),)
    assert images.unknown(declared, answers, after(plan(declared, None))) == ()


def test_a_service_outside_the_plan_is_not_warned_about() -> None:
    declared = fleet(a=service(), b=service("reg.test/x:1"))
    assert plan(declared, after(plan(fleet(a=service("reg.test/y:1")), None)), Inputs(only="service.a")).warnings == ()


def test_it_looks_like_a_rename_and_is_said() -> None:
    before = after(plan(fleet(old=service(volumes=DATA)), None))
    step = plan(fleet(new=service(volumes=DATA)), before)
    notes = {change.address: change.notes for change in step.changes}
    assert "looks like a rename to service.new" in notes["service.old"][0]
    assert "empty volumes" in notes["service.new"][0]


def test_deploy_limits_the_plan_to_one_address_c_09() -> None:
    before = after(plan(fleet(a=service(), b=service()), None))
    edited = fleet(a=service(active=False), b=service(active=False))
    assert kinds(plan(edited, before, Inputs(only="service.a"))) == {"service.a": "update"}
    with pytest.raises(Invalid, match=r"service\.x is not declared"):
        plan(edited, before, Inputs(only="service.x"))
    with pytest.raises(Invalid) as caught:
        plan(fleet(hello=service("reg.test/y:1")), None, Inputs(only="service.helo"))
    assert caught.value.remedy == "did you mean service.hello? declared services are: service.hello"


def test_undeploy_retires_and_tombstones_and_a_later_plan_creates_c_08() -> None:
    declared = fleet(a=service(volumes=DATA))
    before = after(plan(declared, None))
    gone = plan_undeploy("service.a", before)
    assert "declared" not in gone.changes[0].why, "its file may still be there (N55)"
    assert kinds(gone) == {"service.a": "retire"}
    state = after(gone, before)
    assert state.table.tombstones["service.a"].removed_in == 2
    again = plan(declared, state)
    assert kinds(again) == {"service.a": "create"}
    revived = after(again, state)
    assert revived.table.entries["service.a"].epoch == 2, "an epoch is never used twice"
    assert "service.a" not in revived.table.tombstones
    with pytest.raises(Invalid, match="cannot be undeployed"):
        plan_undeploy("service.nope", before)
    with pytest.raises(Conflict, match="was removed in revision 2"):
        plan_undeploy("service.a", state)


def test_burying_and_creating_anew_is_no_way_around_a_grade() -> None:
    """The data may still lie there: what was removed counts as what was before."""
    first = after(plan(fleet(a=service(volumes=DATA)), None))
    buried = after(plan_undeploy("service.a", first), first)
    weaker = fleet(a=service(volumes=(Volume("data", "/data", "none"),)))
    assert plan(weaker, buried).grade == "destroy"
    assert plan(fleet(a=service(volumes=DATA)), buried).grade == "apply"


def test_rollback_brings_the_old_content_as_a_new_revision() -> None:
    first = after(plan(fleet(a=service(), b=service(node="w1")), None))
    second_plan = plan(fleet(a=service(active=False), b=service(node="w2")), first)
    second = after(second_plan, first)
    back = after(plan_rollback(first.table, second), second)
    assert back.head.number == 3
    same = {a: (e.digest, e.node) for a, e in back.table.entries.items()}
    assert same == {a: (e.digest, e.node) for a, e in first.table.entries.items()}
    assert back.table.entries["service.b"].epoch == 3, "w2 must learn that w1 is newer"


def test_rolling_back_never_moves_data_either() -> None:
    """ADR 0009: the pin of an older revision is no permission to leave the volumes behind."""
    first = after(plan(fleet(a=service(node="w1", volumes=DATA)), None))
    second = after(plan_undeploy("service.a", first), first)
    third = after(plan(fleet(a=service(node="w2", volumes=DATA)), second), second)
    assert plan_rollback(first.table, third).candidate is None, "it stays where its data is now, and is pinned there"
    fourth = after(plan(fleet(a=service(node="w2", volumes=DATA, active=False)), third), third)
    back = after(plan_rollback(first.table, fourth), fourth)
    assert back.table.entries["service.a"].node == back.service("a").node == "w2"
    assert back.service("a").active


def test_moving_a_service_with_data_is_refused_with_the_way_out() -> None:
    before = after(plan(fleet(a=service(node="w1", volumes=DATA)), None))
    with pytest.raises(NotPermitted, match="an apply does not move") as refused:
        plan(fleet(a=service(node="w2", volumes=DATA)), before)
    assert "holdfast migrate a --to w2" in refused.value.remedy
    assert 'node = "w1"' in refused.value.remedy


def test_why_this_node_and_why_not_the_others_is_told_on_demand() -> None:
    declared = fleet(a=service(), b=service())
    chosen, others = explain(declared, None, Inputs(), "service.b")
    assert chosen.startswith("w2: w2 has the fewest containers: 0, next is w1 with 1; 1 not eligible")
    assert "h1 is not a worker (roles: hub)" in others


def test_the_plan_is_the_revision_that_would_be_signed() -> None:
    """V-12: printable, hashable, and nothing is decided after it was shown."""
    found = plan(fleet(a=service()), None)
    assert found.candidate is not None
    header = decode_header(found.candidate.header)
    assert (header.number, header.parent, header.fleet) == (1, "", header.trust)
    assert sorted(header.manifests) == ["h1", "w1", "w2"] == list(found.nodes_touched)


def test_a_revision_touches_only_the_manifests_it_changes() -> None:
    """A node learns nothing of others: its manifest keeps its bytes when others change."""
    before = after(plan(fleet(a=service(node="w1"), b=service(node="w2")), None))
    step = plan(fleet(a=service(node="w1", active=False), b=service(node="w2")), before)
    assert step.nodes_touched == ("w1",)


@settings(max_examples=40, deadline=None)
@given(fleets())
def test_nothing_is_planned_from_observations_alone(one: Fleet) -> None:
    """I-31 begins here: an unhealthy node moves nothing that is applied."""
    state = after(plan(one, None))
    seen = {name: NodeObservation(name, "unhealthy") for name in one.nodes}
    try:
        assert plan(one, state, Inputs(seen=seen)).changes == ()
    except HoldfastError:
        assume(False)


def test_the_four_tables_of_m_61_are_facts_with_one_place_each_d_01() -> None:
    """Nodes, placements and edge routes are the revision's; snapshots come with backups. C-10: one fact, one reader."""
    state = after(plan(fleet(a=service(node="w2")), None))
    entry = state.table.entries["service.a"]
    assert (entry.node, entry.hostnames) == ("w2", ())
    assert "node.w2" in state.table.entries
    assert UNSET is state.table.entries["node.w2"].node


def test_the_address_of_a_node_is_shown_once_with_what_is_in_force() -> None:
    """N42: the declared and the effective address were both called `address`."""
    start = fleet(web=service())
    known = after(plan(start, None, Inputs(addresses={"w1": "100.64.0.9"})))
    moved = replace(start, nodes={**start.nodes, "w1": Node("w1", ("worker",), address="100.64.0.7")})
    (change,) = [one for one in plan(moved, known).changes if one.address == "node.w1"]
    assert [(f.path, f.before, f.after) for f in change.fields] == [("address", "100.64.0.9", "100.64.0.7")]


@pytest.mark.parametrize("volume", ["/tmp:/media", Volume("files", "/data", "none")])
def test_a_change_that_detaches_data_is_an_update_that_needs_grade_destroy_n33(volume: Any) -> None:
    """Nothing is destroyed, so nothing is called so: not in the plan, and not in --json."""
    applied = after(plan(fleet(x=service(volumes=(volume,))), None))
    (change,) = plan(fleet(x=service()), applied).changes
    assert (change.address, change.kind, change.grade, change.removes) == ("service.x", "update", "destroy", False)
    assert [demand.reason.rpartition("; ")[2] for demand in change.demands] == ["its data stays on the node"]
