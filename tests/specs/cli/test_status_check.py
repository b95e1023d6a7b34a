"""`status --check` tells cron by its exit code whether the fleet is well (N41)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.cli import main
from holdfast.errors import Corrupt, Unreachable
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import ContainerState
from holdfast.status import gravity
from tests.fleets.build import small_fleet
from tests.fleets.commands import Scene, scene
from tests.fleets.pasting import seat
from tests.fleets.tools import HUB

CODES = Path(__file__).parents[2] / "golden" / "files" / "codes" / "findings.json"
ONE = small_fleet(("web",), ("w1",))


def checked(one: Scene, *words: str) -> tuple[int, str]:
    one.operator.does("status")  # writes the fleet directory
    one.operator.out.truncate(0)
    one.operator.out.seek(0)
    directory = str(one.operator.home / "fleet")
    code = main.run(["status", "--check", "--fleet", directory, "--hub", HUB, *words], one.operator)
    return code, one.operator.out.getvalue()


def well(one: Scene, **more: Any) -> None:
    one.says(one.state("converged"), containers=(ContainerState("web", "main", "running"),), **more)


def recorded(one: Scene) -> None:
    """w1 runs what is applied, and an apply has recorded its key."""
    well(one)
    one.operator.does("apply", "--detach")
    well(one)


def test_a_fleet_that_is_well_is_exit_0_and_prints_nothing_n41(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        recorded(one)
        assert checked(one) == (0, "")
        one.says(one.state("settling", step="pull"))
        assert checked(one) == (0, ""), "a rollout under way"
        code, shown = checked(one, "--json")
        assert code == 0 and [f["code"] for f in json.loads(shown)["findings"]] == ["rollout_settling"]

    scene(tmp_path, story, ONE)


@pytest.mark.parametrize("phase", ["failed", "held"])
def test_a_service_that_is_not_as_applied_is_exit_1_n41(tmp_path: Path, phase: str) -> None:
    async def story(one: Scene) -> None:
        recorded(one)
        one.says(one.state(phase, message="boom"))
        code, shown = checked(one)
        assert code == 1 and "service.web" in shown and "remedy: " in shown
        assert "Revision " not in shown, "only what is wrong"
        assert checked(one, "--json")[0] == 1

    scene(tmp_path, story, ONE)


def test_a_silent_node_is_exit_1_n41(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        recorded(one)
        running = asyncio.create_task(one.rig.desk.run())
        await asyncio.sleep(200)
        code, shown = checked(one)
        assert code == 1 and "node_unhealthy" in shown
        running.cancel()

    scene(tmp_path, story, ONE)


def test_a_hub_that_does_not_answer_is_exit_6_n41(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(one: Scene) -> None:
        recorded(one)

        def silent(*_: object) -> None:
            raise Unreachable("no answer", remedy="try again")

        one.operator.does("status")
        for what in ("status", "applied"):
            with monkeypatch.context() as now:
                now.setattr(one.operator.held, what, silent)
                words = ["status", "--check", "--fleet", str(one.operator.home / "fleet"), "--hub", HUB]
                assert main.run(words, one.operator) == 6, what

    scene(tmp_path, story, ONE)


def test_a_service_of_which_nothing_is_proven_is_not_called_well_n41(tmp_path: Path) -> None:
    """The hub shows a report that is not the one that the node signed, or none."""

    async def story(one: Scene) -> None:
        recorded(one)
        for report in (b"", b'{"node":"w1"}'):
            one.operator.held.lie = lambda view, report=report: replace(view, report=report)  # type: ignore[misc]
            code, shown = checked(one)
            assert code == 1 and "service_unknown" in shown and "service.web" in shown

    scene(tmp_path, story, ONE)


def test_damage_and_forgery_are_exit_7_n41(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(one: Scene) -> None:
        recorded(one)

        one.operator.held.lie = lambda view: replace(view, pulse=view.pulse and replace(view.pulse, signature="forged"))
        code, shown = checked(one)
        assert code == 7 and "word_unverified" in shown
        one.operator.held.lie = lambda view: view
        assert checked(one)[0] == 0

        def forked(*_: object) -> None:
            raise Corrupt("forked", remedy="restore", code="forked")

        with monkeypatch.context() as now:
            now.setattr(one.operator.held, "applied", forked)
            assert checked(one)[0] == 7
        status = one.operator.held.status
        damaged = StatusFinding("blob_damaged", "resource", "web is damaged", "restore it", "service.web")
        with monkeypatch.context() as now:
            now.setattr(one.operator.held, "status", lambda: replace(status(), findings=(damaged,)))
            assert checked(one)[0] == 7

    scene(tmp_path, story, ONE)


def test_a_ledger_directory_is_never_called_well_n41(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    person = seat(tmp_path / "my home")
    assert person.run("holdfast apply").code == 0
    assert person.run("holdfast status").code == 0
    done = person.run("holdfast status --check")
    assert done.code == 2 and "is a ledger directory" in done.err


def test_notes_are_known_codes_and_everything_else_is_an_error_n41() -> None:
    known = {code for table in json.loads(CODES.read_text()).values() for code in table}
    assert gravity.NOTES.keys() <= known and known >= gravity.DAMAGED
    for code in (
        "node_unhealthy",
        "rollout_failed",
        "service_held",
        "crash_loop",
        "edge_route_failed",
        "not_known_yet",
    ):
        assert gravity.is_error(StatusFinding(code, "warning", "", ""))
