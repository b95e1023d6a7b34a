"""How the base of test machines is built: once, whole or not at all, also beside a build that was killed."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.fleets import machine, machine_base
from tests.fleets.waiting import wait_until
from tests.lab.product import PYTHON
from tests.lab.test_rights import as_another_user

pytestmark = pytest.mark.lab


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_base, "CACHE", tmp_path)
    return tmp_path


@pytest.fixture
def made(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Builds of two small parts."""
    done: list[str] = []

    def make(draft: Path) -> None:
        draft.mkdir()
        time.sleep(0.2)
        done.append(draft.name.partition("-")[0])

    monkeypatch.setattr(machine_base, "_build_system", make)
    monkeypatch.setattr(machine_base, "_build_node", make)
    return done


def test_two_builds_at_once_make_each_part_once(cache: Path, made: list[str]) -> None:
    said: list[str] = []
    builds = [threading.Thread(target=machine_base.build, args=(said.append,)) for _ in range(2)]
    for one in builds:
        one.start()
    for one in builds:
        one.join(60)
    assert made == ["debian", "node"] and machine_base.ready() == (machine_base.node(), machine_base.system())
    assert len([line for line in said if " built in " in line]) == 2


KILLED = """
import sys
from pathlib import Path
from tests.fleets import machine_base
machine_base.CACHE = Path(sys.argv[1])
def make(draft):
    over = machine_base.CACHE / "over"
    machine_base._call(["sh", "-c", f"mkdir {draft} && touch {draft}/half && sleep 1 && touch {draft}/late {over}"])
with machine_base._alone(print):
    machine_base._build(machine_base.CACHE / sys.argv[2], make)
"""


def test_a_killed_build_leaves_nothing_that_is_used(cache: Path, made: list[str]) -> None:
    """Its programs go on without it, and the next build waits for their end."""
    killed = subprocess.Popen([PYTHON, "-c", KILLED, str(cache), machine_base.system().name], cwd=machine_base.CHECKOUT)
    wait_until(lambda: [*cache.glob("debian-*.new/half")], "half of it is there")
    killed.kill()
    killed.wait()
    with pytest.raises(machine_base.Unfit, match="make setup"):
        machine_base.ready()
    machine_base.build(lambda text: None)
    assert made == ["debian", "node"]
    assert (cache / "over").stat().st_mtime_ns <= machine_base.system().stat().st_mtime_ns, "it waited"
    assert [*machine_base.system().iterdir()] == [] and [*cache.glob("*.new*")] == []


def test_without_a_base_no_machine_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is made then is open to all users, and later has programs with the right to become root."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(machine_base, "CACHE", cache)
    monkeypatch.setattr(machine, "CACHE", cache)
    monkeypatch.setattr(machine, "MACHINES", cache / "machines")
    with pytest.raises(machine_base.Unfit, match="make setup"), machine.made():
        pass
    assert not cache.exists()


def test_a_user_who_cannot_build_it_is_told_why(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with as_another_user():
        assert machine_base.main() == 0, "the other targets of make need no base"
    assert "it needs root: sudo make setup" in capsys.readouterr().err


def test_another_recipe_is_another_base(monkeypatch: pytest.MonkeyPatch) -> None:
    before = (machine_base.system(), machine_base.node())
    monkeypatch.setattr(machine_base, "INSTALL", machine_base.INSTALL + "\ntrue")
    assert not {machine_base.system(), machine_base.node()} & {*before}
