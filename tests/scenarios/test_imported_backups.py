"""`import backups`: a storage target fills the store of a new hub; damage and the hub's own file do not."""

import io
import json
from pathlib import Path

import pytest

from holdfast.adapters.backup_target import marker
from holdfast.adapters.backup_target.marker import Marker
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.hub.backups import quota
from holdfast.model import backup_key
from holdfast.wiring import cli as wiring
from tests.fleets.archives import FLEET
from tests.fleets.backup_targets import files_in


class Scene:
    """A target with one object and one receipt of each of these, and the state directory of a new hub."""

    def __init__(self, folder: Path) -> None:
        self.target, self.state = folder / "target", folder / "hub"
        self.target.mkdir()
        (self.target / marker.NAME).write_bytes(marker.write(Marker("second-1")))
        self.state.mkdir()
        SqliteStore.open(str(self.state / "ledger.db"), create=True).leave()
        self._there = StoreDirectory(str(self.target), "the target")

    def holds(self, service: str) -> str:
        """The path of its object."""
        content, word = f"sealed {service}".encode(), f"receipt {service}".encode()
        key = backup_key.sealed(FLEET, service, 1, "packs", content)
        self._there.put(backup_key.parse(key), content)
        self._there.put(backup_key.parse(backup_key.receipt(FLEET, service, 1, word)), word)
        return next(str(path) for path in self.target.rglob("*") if path.is_file() and path.read_bytes() == content)

    def imports(self) -> int:
        words = ("--state-dir", str(self.state), "--trust", FLEET, "--json")
        return wiring.command_line(["import", "backups", str(self.target), *words])

    def stored(self) -> set[bytes]:
        return set(files_in(self.state / "backups").values())


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    return Scene(tmp_path)


def test_backups_of_services_and_nodes_are_copied_once_and_the_file_of_the_hub_is_not(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    for service in ("web", "node.w1", "hub.hub1"):
        scene.holds(service)
    assert scene.imports() == 0
    assert json.loads(capsys.readouterr().out) == {"backups": 2, "objects": 4, "bytes": 50, "damaged": []}
    assert scene.stored() == {b"sealed web", b"receipt web", b"sealed node.w1", b"receipt node.w1"}
    assert scene.imports() == 0
    assert json.loads(capsys.readouterr().out)["objects"] == 0


def test_a_receipt_lies_only_where_all_of_its_service_does(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = Path(scene.holds("web"))
    damaged.chmod(0o600)
    damaged.write_bytes(b"sealed wex")
    scene.holds("api")
    assert scene.imports() == 7
    said = capsys.readouterr()
    assert json.loads(said.out)["backups"] == 1 and "could not be copied" in said.err
    assert scene.stored() == {b"sealed api", b"receipt api"}


def test_the_ledger_of_the_hub_keeps_its_room(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "RESERVE_BYTES_MIN", 1 << 60)
    monkeypatch.setattr(quota, "RESERVE_BYTES_MAX", 1 << 60)
    scene.holds("web")
    assert scene.imports() == 1
    assert "no_space" in capsys.readouterr().err and not scene.stored()
