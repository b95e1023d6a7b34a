"""`import ledger` says what no node could give back: who was shut out, and which tokens were used (I-12)."""

import io
import json
from argparse import Namespace

from holdfast.cli.hub import import_ledger
from holdfast.cli.terminal import Terminal
from holdfast.hub.ledger.restore import Restored
from holdfast.model.revision import Head
from holdfast.wiring import cli as wiring


def said(as_json: bool) -> str:
    out = io.StringIO()
    box = wiring.SystemToolbox(Terminal(out, io.StringIO(), io.StringIO(), environ_no_colour=True), {})
    restored = Restored(Head(4, "a" * 64), 2, 9, ())
    assert import_ledger._say(restored, "/state", Namespace(json=as_json), box) == 0
    return out.getvalue()


def test_revocations_and_spent_invites_are_named_as_lost() -> None:
    assert "which keys were revoked and which invites were used" in said(False)
    assert "holdfast node revoke NAME" in said(False)
    assert json.loads(said(True))["not_restored"] == ["revocations", "spent invites"]
