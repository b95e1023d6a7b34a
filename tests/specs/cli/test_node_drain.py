"""`node drain`: planned, shown, asked, signed, and waited for like every other change; undone by --undo."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.model.fleet import Fleet, Thresholds
from tests.fleets.build import ALICE, ALICE_SIGNER, operator_signer, small_fleet, small_service
from tests.fleets.commands import Scene, changed, scene

BOB, BOB_SIGNER = operator_signer("bob", "apply")


def fleet(protect: bool = False, thresholds: Thresholds = Thresholds()) -> Fleet:  # noqa: B008 (frozen value)
    """`api` is pinned to w1, where everything lands that is not."""
    api = replace(small_service("api"), node="w1")
    web = replace(small_service("web"), protect=protect)
    return small_fleet({"api": api, "web": web}, ("w1", "w2"), (ALICE, BOB), thresholds)


def placed(one: Scene) -> dict[str, str]:
    applied = one.rig.hub.applied()
    assert applied is not None
    return {a: str(e.node) for a, e in applied.table.entries.items() if a.startswith("service.")}


def shown(one: Scene, name: str = "w1") -> bool:
    nodes = json.loads(one.operator.does("node", "list", "--json"))["nodes"]
    found: bool = next(node["drained"] for node in nodes if node["name"] == name)
    return found


def test_a_drain_is_shown_with_what_moves_and_what_stays_and_is_seen_in_node_list(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.by = BOB_SIGNER
        text = one.operator.does("node", "drain", "w1", "--detach")
        assert "service.web  move w1 → w2  (w1 is drained; w2 has the fewest containers" in text
        assert 'Warning: service.api stays on w1: pinned by node = "w1"' in text
        assert placed(one) == {"service.api": "w1", "service.web": "w2"}
        assert shown(one) and not shown(one, "w2")
        assert "worker (drained)" in one.operator.does("node", "list")
        assert ", drained" in one.operator.does("node", "show", "w1").splitlines()[0]
        assert "drained" not in one.operator.does("node", "show", "w2").splitlines()[0]
        later = json.loads(one.operator.does("plan", "--json"))["changes"]
        assert [(c["address"], c["why"]) for c in later] == [("node.w1", "records the key it joined with")]
        assert "w1 is drained" in one.operator.does("plan", "--explain", "service.web")
        document = json.loads(one.operator.does("node", "drain", "w1", "--undo", "--detach", "--json"))
        assert [(c["address"], c["why"]) for c in document["changes"]] == [("node.w1", "takes services again")]
        assert not shown(one) and placed(one)["service.web"] == "w2"
        assert "No changes" in one.operator.does("node", "drain", "w1", "--undo", "--detach")

    scene(tmp_path, story, fleet())


def test_it_waits_until_the_new_home_runs_it_and_the_old_one_let_go(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        await one.w2.join()
        one.says(one.state("converged", "api"), one.state("converged", "web"))
        one.says(by=one.w2)
        one.then(
            lambda: one.says(one.state("converged", "api")),
            lambda: one.says(one.state("settling", "web"), by=one.w2),
            lambda: one.says(one.state("converged", "web"), by=one.w2),
        )
        document = json.loads(one.operator.does("node", "drain", "w1", "--json"))
        assert document["success"] and set(document["receipts"]["accepted"]) == {"w1", "w2"}
        assert not one.operator.held.then, "everything was waited for"

    scene(tmp_path, story, fleet())


def test_an_unknown_node_is_exit_2_and_an_unanswered_question_changes_nothing(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.does("node", "drain", "w9", "--json", code=2)
        assert one.operator.complaint["code"] == "unknown_node"
        assert one.rig.head.number == 1

    scene(tmp_path, story, fleet())


@pytest.mark.parametrize("why", ["protected", "threshold"])
def test_where_it_takes_another_signature_the_command_that_collects_it_is_printed_and_works(
    tmp_path: Path, why: str
) -> None:
    declared = fleet(protect=True) if why == "protected" else fleet(thresholds=Thresholds(apply=2))

    async def story(one: Scene) -> None:
        one.operator.by = BOB_SIGNER
        one.operator.does("node", "drain", "w1", "--json", code=4)
        remedy = one.operator.complaint["remedy"]
        assert remedy.startswith("holdfast node drain w1 -o drain.plan") and "holdfast apply drain.plan" in remedy
        file = str(tmp_path / "drain.plan")
        one.operator.does("node", "drain", "w1", "-o", file)
        assert one.rig.head.number == 1
        one.operator.does("sign", file)
        one.operator.by = ALICE_SIGNER
        one.operator.does("sign", file)
        one.operator.does("apply", file, "--detach")
        assert shown(one) and placed(one)["service.web"] == "w2"

    scene(tmp_path, story, declared)


def test_a_rollback_does_not_take_back_a_drain_and_does_not_stop_at_it(tmp_path: Path) -> None:
    """The revision before the drain differs in its table, but of that nothing is rolled back: it is no target."""

    async def story(one: Scene) -> None:
        one.operator.held.converged = lambda newest, limit: list(range(1, newest + 1))  # type: ignore[method-assign]
        one.operator.fleet = changed(one.operator.fleet, api=2)
        one.operator.does("apply", "--detach")
        one.operator.does("node", "drain", "w1", "--detach")
        document = json.loads(one.operator.does("rollback", "--json", "--detach"))
        assert [change["address"] for change in document["changes"]] == ["service.api"]
        assert shown(one) and placed(one)["service.web"] == "w2"
        one.operator.does("rollback", "--detach")
        assert "content of revision 3" in one.operator.err.getvalue()

    scene(tmp_path, story, fleet())


def test_where_a_drain_is_all_there_is_nothing_is_rolled_back(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.held.converged = lambda newest, limit: list(range(1, newest + 1))  # type: ignore[method-assign]
        one.operator.does("node", "drain", "w1", "--detach")
        one.operator.does("rollback", "--json", code=5)
        assert one.operator.complaint["code"] == "nothing_converged" and one.rig.head.number == 2

    scene(tmp_path, story, fleet())
