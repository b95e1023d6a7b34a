"""After a rollback the command says whether the files differ from the new revision, and it is true (N36)."""

from pathlib import Path

import pytest

from holdfast.cli.fleet import session
from holdfast.errors import Conflict
from tests.fleets.commands import Scene, changed, scene


def rolls_back(one: Scene) -> str:
    one.operator.does("rollback", "1", "--detach")
    return one.operator.err.getvalue().strip().splitlines()[-1]


def test_files_that_are_corrected_already_match(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        before = one.operator.fleet
        one.operator.fleet = changed(before, web=2)
        one.operator.does("apply", "--detach")
        one.operator.fleet = before
        assert rolls_back(one) == "Your files match this revision."
        assert "No changes" in one.operator.does("plan")

    scene(tmp_path, story)


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")
        assert rolls_back(one) == "Your files still differ from this revision in service.web: holdfast plan shows how."
        assert "service.web  update" in one.operator.does("plan")

    scene(tmp_path, story)


def test_files_that_cannot_be_compared_are_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")

        def refuse(*_: object) -> None:
            raise Conflict("no node fits service.web", remedy="add a node")

        monkeypatch.setattr(session, "make_plan", refuse)
        line = rolls_back(one)
        assert line.startswith("Your files are not changed, and could not be compared") and "no node fits" in line

    scene(tmp_path, story)


HALF_EDITED = [{"services/bad.toml": b"name = \n"}, {"fleet.toml": b"[fleet]\nna me = \n"}, {"strange.toml": b""}]


@pytest.mark.parametrize("broken", HALF_EDITED, ids=["a service", "fleet.toml", "a file at the top"])
def test_one_broken_file_blocks_no_emergency_exit_n30(tmp_path: Path, broken: dict[str, bytes]) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")
        one.operator.broken = broken
        one.operator.does("validate", code=2)
        for words in ("status", "ps", "history", "node list", "edge list", "retired", "checkpoint list"):
            one.operator.does(*words.split())
        assert "could not be compared" in rolls_back(one)
        one.operator.does("node", "drain", "w2", "--detach")
        one.operator.does("undeploy", "web", "--detach")
        assert "web.toml still exists" in one.operator.err.getvalue()

    scene(tmp_path, story)
