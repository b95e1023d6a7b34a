"""An apply has succeeded when every step of it has; what has not is named beside what has (M-46, I-21)."""

import io
import json
from argparse import Namespace
from collections.abc import Callable
from typing import cast

import pytest

from holdfast.cli.fleet import commit_plan
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import outcome
from holdfast.cli.waiting.outcome import Outcome
from holdfast.cli.waiting.receipts import Receipts
from holdfast.errors import Unreachable
from holdfast.model.revision import Head
from holdfast.planning.plan import plan
from tests.fleets.build import small_fleet

HEAD = Head(7, "7" * 64)


def reported(
    got: Receipts | Callable[..., Outcome], as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """Exit code, what was printed, and what was complained about."""
    said = io.StringIO()
    terminal = Terminal(said, said, io.StringIO(), environ_no_colour=True)
    box = cast(Toolbox, Namespace(terminal=terminal, hubs=Namespace(reader=lambda target: target)))
    monkeypatch.setattr(outcome, "wait", (lambda *_: Outcome(got)) if isinstance(got, Receipts) else got)
    args = Namespace(json=as_json, detach=False, fleet=".", hub=None)
    try:
        code = commit_plan.report(HEAD, plan(small_fleet(), None), None, "https://hub", args, box)
    except Unreachable as trouble:
        return trouble.exit_code, said.getvalue(), trouble.message
    return code, said.getvalue(), ""


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_some_nodes_accepted_and_one_did_not(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-46: exit 6; each node that signed and each that did not is named where it belongs."""
    code, said, trouble = reported(Receipts(("w1", "w2"), ("e1",), ("w9",)), as_json, monkeypatch)
    assert code == 6 and "e1" in trouble and "w1" not in trouble
    if as_json:
        found = {"accepted": ["w1", "w2"], "missing": ["e1"], "not_joined": ["w9"], "unheard": []}
        assert json.loads(said)["receipts"] == found
    else:
        assert "Confirmed by w1, w2." in said and "w9" in said


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_interrupt_while_waiting_says_that_the_revision_is_applied_n18(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Outcome:
        raise KeyboardInterrupt

    code, said, _ = reported(interrupted, as_json, monkeypatch)
    assert code == 130 and "Revision 7 is applied; its rollout continues." in said and "holdfast rollback" in said


@pytest.mark.parametrize("got", [Receipts(("w1",)), Receipts(), Receipts((), (), ("w1",))])
def test_nothing_is_missing(got: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-46: success if and only if no step failed."""
    assert reported(got, False, monkeypatch)[0] == 0
