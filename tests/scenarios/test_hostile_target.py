"""`hub fetch` from a storage target whose owner writes what they like: a receipt is not proven there (ADR 0058)."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.adapters.backup_target import marker
from holdfast.adapters.backup_target.marker import Marker
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.sealing.age import AgeSealer
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.model import archive_key, backup_key, canonical
from holdfast.model.archive import Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.model.backup import Receipt, Stored
from holdfast.trust import receipts
from holdfast.wiring import cli as wiring
from tests.fleets.archives import FLEET, process_place
from tests.fleets.desks import key_of

NAME, FILE = "hub.hub1", "hub.tar.zst.age"


class Target:
    """`files` writes what is in an archive of the hub; all else is as a node stores it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "target"
        self.path.mkdir()
        (self.path / marker.NAME).write_bytes(marker.write(Marker("second-1")))
        self._store = StoreDirectory(str(self.path), "the target")
        pair = AgeIdentities().fresh()
        self.identity = folder / "identity"
        self.identity.write_text(pair.identity)
        self._recipient = pair.recipient
        self._number = 0

    def holds(self, files: Callable[[Path], None], made_s: int = 1_800_000_000, node: str = "hub1") -> None:
        self._number += 1
        place = process_place(self.folder / f"archive{self._number}")
        place.purpose = Purpose(FLEET, NAME, self._number)
        files(place.top)
        packed = place.pack()
        key = archive_key.written(ArchiveKey(place.purpose, place.pair.identity))
        self._put("keys", AgeSealer().seal(key, [self._recipient]))
        for digest, content in place.store.items():
            self._put("manifests" if digest == packed.digest else "packs", content)
        made = Receipt(
            1, FLEET, NAME, node, self._number, 0, self._number, made_s, "order",
            Stored(packed.digest, len(packed.manifest)), (), 1, 5,
        )  # fmt: skip
        signed = receipts.sign(key_of("nobody knows this key"), made)
        self._store.put(backup_key.parse(backup_key.receipt(FLEET, NAME, self._number, signed)), signed)

    def _put(self, kind: backup_key.SealedKind, content: bytes) -> None:
        self._store.put(backup_key.parse(backup_key.sealed(FLEET, NAME, self._number, kind, content)), content)

    def fetch(self, *words: str) -> int:
        about = ("--trust", FLEET, "--identity", str(self.identity))
        return wiring.command_line(["hub", "fetch", str(self.path), *about, *words])


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    return Target(tmp_path)


def hub_file(top: Path) -> None:
    (top / FILE).write_bytes(b"whole")


def test_the_newest_file_is_written_and_named(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    target.holds(hub_file)
    assert target.fetch("--to", "hub.age") == 0
    assert Path("hub.age").read_bytes() == b"whole"
    assert "the hub as of 2027-01-15T08:00:00Z" in capsys.readouterr().out


def test_a_time_that_no_calendar_has_ends_no_command(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    target.holds(hub_file, made_s=canonical.INT_MAX)
    assert target.fetch("--list") == 0
    assert target.fetch("--to", "hub.age") == 0
    assert "9999-12-31" in capsys.readouterr().out


def test_a_name_with_the_commands_of_a_terminal_is_shown_without_them(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    target.holds(hub_file, node="hub1\x1b[2J\nremedy: rm -r /")
    assert target.fetch("--list") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and not any(line.startswith("remedy") for line in shown.splitlines())


def linked(top: Path) -> None:
    os.symlink("/etc/shadow", top / FILE)


def piped(top: Path) -> None:
    os.mkdir(top / FILE)


def two(top: Path) -> None:
    hub_file(top)
    (top / "another").write_bytes(b"x")


@pytest.mark.parametrize("files", [linked, piped, two], ids=lambda files: files.__name__)
def test_what_is_no_single_file_is_not_taken_for_one(
    target: Target, files: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    target.holds(files)
    assert target.fetch("--to", "hub.age", "--json") == 7
    assert "has no file of a hub" in json.loads(capsys.readouterr().err)["message"]
    assert not os.path.lexists("hub.age") and not list(Path().glob(".holdfast-fetch-*"))
