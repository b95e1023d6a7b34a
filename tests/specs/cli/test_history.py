"""A history that is shorter than it was asked to be says so."""

import io
from argparse import Namespace
from typing import cast

import pytest

from holdfast.cli import history
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.model.record import RevisionRecord
from tests.fleets.build import grown_mailbox

HUB = grown_mailbox(5)


class Capped:
    """Gives three records at most, as a hub gives a thousand."""

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        return HUB.records(newest, min(limit, 3))


def remarks(hub: object, limit: int, as_json: bool = False) -> str:
    out, err = io.StringIO(), io.StringIO()
    box = Namespace(terminal=Terminal(out, err, io.StringIO()), hub=lambda target: hub)
    assert history.run(Namespace(limit=limit, json=as_json, hub="somewhere", fleet="."), cast(Toolbox, box)) == 0
    return err.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_list_that_was_cut_says_so_and_how_to_see_older_ones(as_json: bool) -> None:
    said = remarks(Capped(), 4, as_json)
    assert "Only the newest" in said and "holdfast history show 2" in said


@pytest.mark.parametrize("limit", [5, 50])
def test_a_whole_list_says_nothing(limit: int) -> None:
    assert remarks(HUB, limit) == ""


@pytest.mark.parametrize("limit", [1, 3])
def test_as_many_as_were_asked_for_is_no_cut(limit: int) -> None:
    assert remarks(Capped(), limit) == ""


def test_nothing_applied_yet_is_said_and_is_no_failure() -> None:
    assert "Nothing has been applied yet" in remarks(None, 5)
