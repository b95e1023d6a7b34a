"""A backup that its node reports as made, and that the hub's store lost, is told as missing (N81)."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.watchers.missing_backups import MissingBackups
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupMade, BackupState, BackupStates, Copies

FLEET = "f" * 64
RECEIPT = b"receipt"
DIGEST = backup_key.digest(RECEIPT)
KEY = backup_key.receipt(FLEET, "web", 3, RECEIPT)


def made(target: str) -> BackupMade:
    return BackupMade(DIGEST[:16], DIGEST, 3, 0.0, 0.0, "schedule", 1, 1, 1, 1, target)


def found(state: BackupState, stored: bool, is_newest: bool = True) -> list[tuple[str, str]]:
    """`is_newest`: the pulse names this report."""
    member = SimpleNamespace(
        name="w1",
        report=object(),
        report_bytes=msgspec.json.encode(BackupStates((state,))),
        report_digest="d",
        pulse_report="d" if is_newest else "newer",
    )
    objects = MemoryObjects()
    if stored:
        objects.put(backup_key.parse(KEY), RECEIPT)
    registry = SimpleNamespace(applied=SimpleNamespace(fleet_id=FLEET), members={"w1": member})
    store = BackupStore(objects, lambda key, content, node: None)
    findings = MissingBackups(cast("Any", registry), store).findings(0.0)
    return [(one.code, one.address) for one in findings]


MISSING = [("backup_missing", "service.web")]


@pytest.mark.parametrize(
    ("state", "stored", "expected"),
    [
        (BackupState("web", last=made("hub")), True, []),
        (BackupState("web", last=made("hub")), False, MISSING),
        (BackupState("web", last=made("nas")), False, []),
        (BackupState("web", last=made("nas"), copies=(Copies("hub", (3, 2)),)), False, MISSING),
        (BackupState("web", last=made("nas"), copies=(Copies("hub", (2,)),)), False, []),
        (BackupState("web"), False, []),
    ],
    ids=["there", "lost", "elsewhere", "a copy is lost", "not copied yet", "none was made"],
)
def test_a_backup_that_the_store_lost_is_missing(state: BackupState, stored: bool, expected: list[Any]) -> None:
    assert found(state, stored) == expected


def test_a_report_that_is_on_its_way_is_not_judged() -> None:
    assert found(BackupState("web", last=made("hub")), stored=False, is_newest=False) == []
