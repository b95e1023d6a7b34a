"""What `holdfast status` says about backups: the last one, the last proof, and the custody of the keys (C-19, I-32)."""

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from holdfast.cli.backups import proofs
from holdfast.model.applied import Applied
from holdfast.model.backup_report import BackupMade, BackupState, BackupStates
from holdfast.model.node_view import NodeView
from holdfast.model.verified_report import VerifiedReport
from tests.fleets.build import commit, mailbox, small_fleet, small_service

NOW_S = 1_700_000_000.0
MADE = BackupMade("a" * 16, "a" * 64, 1, NOW_S - 300, 1.0, "schedule", 3, 300, 100, 100, "hub")


def applied(custody: str = "sealed") -> Applied:
    hub = mailbox()
    changed = replace(small_service("api"), custody=custody)
    commit(hub, small_fleet({"web": small_service("web"), "api": changed}, nodes=("w1",)))
    found = hub.applied()
    assert found is not None
    return found


def reports(*names: str) -> dict[str, VerifiedReport]:
    section = BackupStates(tuple(BackupState(name, last=MADE) for name in names))
    view = NodeView("w1", ("worker",), "healthy", joined=True, report=msgspec.json.encode(section))
    return {"w1": VerifiedReport(view, report=cast("Any", object()))}


def test_the_custody_of_every_service_that_is_backed_up_is_shown() -> None:
    found = applied()
    lines = list(proofs.lines(found, reports("web", "api"), NOW_S))
    assert lines[0] == "Backups: api made 5 min ago, last proven never; web made 5 min ago, last proven never"
    assert lines[1:] == ["Custody of their keys: sealed 2"]
    assert [one["custody"] for one in proofs.documents(found, reports("web", "api"))] == ["sealed", "sealed"]
    older = applied("hub")  # by a release that did not refuse it
    assert list(proofs.lines(older, reports("web", "api"), NOW_S))[1:] == ["Custody of their keys: sealed 1, hub 1"]
    assert not list(proofs.lines(found, reports(), NOW_S))
