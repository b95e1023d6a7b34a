"""Every guide and the tour are followed literally, by copy-paste, on the real product."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def environment(home: Path) -> dict[str, str]:
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "USER": "alice", "LC_ALL": "C.UTF-8"}


def blocks(guide: Path) -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", guide.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_pasted_into_a_shell(guide: Path, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + blocks(guide)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    promised = re.findall(r"echo \"exit \$\?\"\s*# (\d)", script)
    assert re.findall(r"^exit (\d)$", done.stdout, re.MULTILINE) == promised


AGAIN_S_MAX = 20.0  # the contract's, on a machine that does nothing else
PATIENCE = 3  # the tests' machine does


def test_the_tour_of_make_demo_runs_and_again_on_the_lab_it_left(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "HOLDFAST_LAB": str(tmp_path / "lab")}
    try:
        tour(env)
        began_s = time.monotonic()
        tour(env)
        assert time.monotonic() - began_s < PATIENCE * AGAIN_S_MAX
    finally:
        down = [str(ROOT / ".venv" / "bin" / "holdfast"), "lab", "down"]
        subprocess.run(down, env=env, capture_output=True, timeout=60, check=True)


def tour(env: dict[str, str]) -> None:
    done = subprocess.run([ROOT / "examples" / "tour"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(exit 1)" in done.stdout and "No changes" in done.stdout and "Try next" in done.stdout
    visits = re.findall(r"^Welcome (back to|to) the shop\. Customers so far: \d+$", done.stdout, re.MULTILINE)
    assert visits == ["to", "to", "back to", "back to"], done.stdout
