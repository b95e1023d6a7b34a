"""The suite itself: `make soak` can be resumed (contract.md), and one helper waits for all tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets import waiting
from tests.fleets.waiting import Stopwatch, wait_until

TESTS = """
import os
def test_a(): pass
def test_b(): assert os.path.exists("repaired")
def test_c(): pass
"""

CONFTEST = """
from pathlib import Path
from tests.fleets.soak import Passed, ResumedSoak
def pytest_configure(config):
    config.pluginmanager.register(ResumedSoak(Passed(Path("build/passed"), Path.cwd())))
"""

ROOT = Path(__file__).parents[2]


def soak(folder: Path) -> tuple[int, str]:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_long.py"]
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip().splitlines()[-1].partition(" in ")[0]


def test_an_interrupted_soak_goes_on_and_another_source_begins_again(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / ".gitignore").write_text("build\nrepaired\n__pycache__\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.test"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    assert soak(tmp_path) == (1, "1 failed, 2 passed")
    (tmp_path / "repaired").touch()
    assert soak(tmp_path) == (0, "1 passed, 2 deselected")
    assert soak(tmp_path) == (0, "3 deselected")
    (tmp_path / "test_long.py").write_text(TESTS + "def test_d(): pass\n")
    assert soak(tmp_path) == (0, "4 passed")
    (tmp_path / "new.py").write_text("this file is not in git yet")
    assert soak(tmp_path) == (0, "4 passed")


def test_helpers_that_every_file_needs_exist_once() -> None:
    found: dict[str, list[str]] = {"wait_until": [], "free_port": []}
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in found:
                found[node.name.lstrip("_")].append(path.name)
    assert found == {"wait_until": ["waiting.py"], "free_port": ["ports.py"]}


def test_a_limit_is_exact_on_an_idle_machine_and_stretched_fourfold_on_a_busy_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall_s, busy_s = 0.0, 0.0
    monkeypatch.setattr("tests.fleets.waiting.time.monotonic", lambda: wall_s)
    monkeypatch.setattr(waiting, "_busy_s", lambda: busy_s)
    watch = Stopwatch()
    wall_s = 9.0
    assert watch.within(10) and watch.stretch == 1
    wall_s = 11.0
    assert not watch.within(10), "idle"
    busy_s = 6.0
    assert watch.within(10) and watch.stretch == 11 / 5
    wall_s, busy_s = 41.0, 40.0
    assert not watch.within(10) and watch.stretch == 4


def test_a_wait_ends_with_its_condition_or_with_an_assertion(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter((False, True))
    assert wait_until(lambda: next(looks), "the second look") < 10
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.1)
    with pytest.raises(AssertionError, match=r"not within 0 s .*: it never holds"):
        wait_until(lambda: False, "it never holds")
