"""The file in the run directory: who runs and where it listens, several agents in one directory, gone afterwards."""

import json
import os
from pathlib import Path

import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.machine.presence import Presence
from holdfast.errors import HoldfastError


def test_each_agent_tells_of_itself_and_takes_it_away(tmp_path: Path) -> None:
    run = tmp_path / "run"
    one = Presence(str(run), "w1", {"state_dir": "/a"}, PosixDisk())
    one.tell()
    two = Presence(str(run), "w2", {"state_dir": "/b"}, PosixDisk())
    two.tell("100.64.0.2:9444")
    found = {path.name: json.loads(path.read_text()) for path in run.iterdir()}
    assert found == {
        "agent-w1.json": {"node": "w1", "pid": os.getpid(), "state_dir": "/a", "listening": ""},
        "agent-w2.json": {"node": "w2", "pid": os.getpid(), "state_dir": "/b", "listening": "100.64.0.2:9444"},
    }
    assert {path.stat().st_mode & 0o777 for path in run.iterdir()} == {0o644}
    one.leave()
    assert [path.name for path in run.iterdir()] == ["agent-w2.json"]
    two.leave()
    assert list(run.iterdir()) == []


def test_a_directory_it_made_goes_with_it_and_one_it_found_stays(tmp_path: Path) -> None:
    made = Presence(str(tmp_path / "made"), "w1", {}, PosixDisk())
    made.tell()
    made.leave()
    made.leave()
    assert not (tmp_path / "made").exists()
    (tmp_path / "found").mkdir()
    found = Presence(str(tmp_path / "found"), "w1", {}, PosixDisk())
    found.tell()
    found.leave()
    assert list((tmp_path / "found").iterdir()) == []


def test_what_cannot_be_written_is_said_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError) as told:
        Presence(str(tmp_path / "file"), "w1", {}, PosixDisk()).tell()
    assert "file" in told.value.message and told.value.remedy
