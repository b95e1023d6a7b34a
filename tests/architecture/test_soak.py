"""`make soak` can be interrupted: it goes on with the tests that have not passed (contract.md)."""

import subprocess
import sys
from pathlib import Path

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
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.test"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    assert soak(tmp_path) == (1, "1 failed, 2 passed")
    (tmp_path / "repaired").touch()
    assert soak(tmp_path) == (0, "1 passed, 2 deselected")
    assert soak(tmp_path) == (0, "3 deselected")
    (tmp_path / "test_long.py").write_text(TESTS + "def test_d(): pass\n")
    assert soak(tmp_path) == (0, "4 passed")
