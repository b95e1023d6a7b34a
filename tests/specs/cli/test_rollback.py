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
