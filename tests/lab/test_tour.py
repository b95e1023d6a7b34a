"""The tour of `make demo`, as a newcomer runs it: twice."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.fleets.waiting import Stopwatch
from tests.lab.test_guides import ROOT, environment

pytestmark = pytest.mark.lab

AGAIN_S_MAX = 20.0  # contract.md, on a machine that does nothing else


def test_the_tour_of_make_demo_runs_and_again_on_the_lab_it_left(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "HOLDFAST_LAB": str(tmp_path / "lab")}
    try:
        tour(env)
        watch = Stopwatch()
        tour(env)
        assert watch.within(AGAIN_S_MAX), watch
    finally:
        down = [str(ROOT / ".venv" / "bin" / "holdfast"), "lab", "down"]
        subprocess.run(down, env=env, capture_output=True, timeout=60, check=True)


def tour(env: dict[str, str]) -> None:
    done = subprocess.run([ROOT / "examples" / "tour"], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verified: " in done.stdout, done.stdout
    assert "(exit 1)" in done.stdout and "No changes" in done.stdout and "Try next" in done.stdout
    visits = re.findall(r"^Welcome (back to|to) the shop\. Customers so far: \d+$", done.stdout, re.MULTILINE)
    assert visits == ["to", "to", "back to", "back to"], done.stdout
    (asked, rate) = map(int, re.findall(r"^(\d+) requests, (\d+) a second: 0 failed$", done.stdout, re.MULTILINE)[0])
    assert asked > 500 and rate >= 20, "an update and a failed one, with visitors all the time"
