"""Every guide is followed literally, by copy-paste, on the real product."""

import os
import re
import signal
import subprocess
from contextlib import suppress
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_pasted_into_a_shell(guide: Path, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + blocks(guide)
    env = environment(tmp_path)
    printed = tmp_path / "printed"
    with printed.open("w") as out:  # a file, not a pipe: a process that a failed guide left would hold it open
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        code = shell.wait(timeout=400)
    finally:  # also of one that hangs: no process and nothing of its lab stays
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        down = ["holdfast", "lab", "down", "--dir", str(tmp_path / "lab")]
        subprocess.run(down, env=env, capture_output=True, timeout=120)
    assert code == 0, printed.read_text()
    promised = re.findall(r"echo \"exit \$\?\"\s*# (\d)", script)
    assert re.findall(r"^exit (\d)$", printed.read_text(), re.MULTILINE) == promised
