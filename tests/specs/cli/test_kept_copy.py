"""`retired restore` of data that is in its place: the service comes back to it by a signed revision."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.cli.waiting import verdict
from holdfast.model.deployment import ServiceState
from holdfast.model.move import Move
from holdfast.model.report import RetiredData, SignedPulse
from holdfast.model.revision import Entry
from holdfast.planning.formats import NEWEST
from holdfast.planning.kept_copy import plan_kept
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from tests.fleets.build import ALICE, signed, small_fleet
from tests.fleets.desks import Rig, key_of
from tests.fleets.tools import Box
from tests.specs.cli.test_checkpoint_verbs import commits, web
from tests.specs.cli.test_order_verbs import BOB, BOB_SIGNER, Worker, at_once, scene

COPY = RetiredData("web", "/srv/web", 3 * 1024**2, 17, epoch=1, state="superseded", target="w2")


class Newest(Worker):
    def pulse(self, report: bytes = b"", **changed: Any) -> SignedPulse:
        return super().pulse(report, format=NEWEST, **changed)


def reports(worker: Worker, **said: Any) -> None:
    worker.__class__ = Newest
    worker.said = said
    at_once(worker.follows())
    at_once(worker.says(heartbeat=True, **worker.word()))


def entry(rig: Rig) -> Entry:
    applied = rig.hub.applied()
    assert applied is not None
    return applied.table.entries["service.web"]


def moved(rig: Rig) -> None:
    """To w2, with its data."""
    fleet = small_fleet({"web": web(1)}, ("w1", "w2"), (ALICE, BOB))
    rig.commit(replace(fleet, nodes={name: replace(one, key=key_of(name).line) for name, one in fleet.nodes.items()}))
    applied = rig.hub.applied()
    assert applied is not None
    rig.hub.commit(signed(plan_move(Wish("web", "w2"), applied, {})))
    rig.desk.committed()


def test_a_removed_service_comes_back_as_it_was_with_its_data(tmp_path: Path) -> None:
    """Also after an accidental --allow-removals: its file is gone, too."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        commits(rig, 1)
        before = entry(rig)
        rig.commit(small_fleet({}, ("w1", "w2"), (ALICE, BOB)))
        reports(w1, retired=(RetiredData("web", "/srv/web", 3 * 1024**2, 17, rig.head.number),))
        text = box.does("retired", "restore", "web", "--yes", "--detach")
        assert "service.web" in text and entry(rig) == replace(before, epoch=2)

    scene(tmp_path, story)


def test_a_service_goes_on_with_the_older_copy_once_it_does_not_run_elsewhere(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        moved(rig)
        reports(w1, retired=(COPY,))
        reports(w2, services=(ServiceState("web", "converged", "0" * 16),))
        trouble = box.fails(3, "retired", "restore", "web", "--yes")
        assert trouble["code"] == "runs_elsewhere" and "runs on w2 with newer data" in trouble["message"]
        assert "holdfast migrate web --to w1 --force" in trouble["remedy"] and "holdfast stop web" in trouble["remedy"]
        assert entry(rig).node == "w2"
        reports(w2, services=(ServiceState("web", "held", "0" * 16),))
        text = box.does("retired", "restore", "web", "--yes", "--detach")
        assert "what w2 wrote since stays there" in text
        assert (entry(rig).node, entry(rig).epoch, entry(rig).move) == ("w1", 3, Move("w2", kept=True))

    scene(tmp_path, story)


def test_an_operator_of_grade_apply_cannot_take_an_older_copy(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        moved(rig)
        reports(w1, retired=(COPY,))
        reports(w2, services=(ServiceState("web", "held", "0" * 16),))
        box.by = BOB_SIGNER
        assert "destroy" in box.fails(4, "retired", "restore", "web", "--yes")["message"]
        assert entry(rig).node == "w2"

    scene(tmp_path, story)


def test_ctrl_c_names_a_way_back_that_moves_the_data_back_n70(tmp_path: Path) -> None:
    """It named a rollback, which leaves a service where its data is."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        moved(rig)
        applied = rig.hub.applied()
        assert applied is not None
        head, args = applied.head, Namespace(fleet=".", hub="h")
        there = plan_move(Wish("web", "w1"), applied, {})
        assert "to undo it: holdfast migrate web --abort" in verdict.interrupted(head, there, args)
        for without in (plan_abort("web", applied), plan_kept("web", "w1", applied)):
            assert verdict.interrupted(head, without, args).endswith("The same command follows it")

    scene(tmp_path, story)


def test_data_that_the_service_uses_is_not_brought_back(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        commits(rig, 1)
        home = {"w1": w1, "w2": w2}[str(entry(rig).node)]
        reports(home, retired=(COPY,))
        trouble = box.fails(3, "retired", "restore", "web", "--yes")
        assert trouble["code"] == "still_applied" and "holdfast ps web" in trouble["remedy"]

    scene(tmp_path, story)
