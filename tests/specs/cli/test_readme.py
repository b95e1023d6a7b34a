"""The transcript in the README that needs no machine is what a newcomer sees. `test_tour` runs `make demo`."""

import io
import os
import re
import subprocess
from pathlib import Path

from holdfast.cli.hub import show_finding
from holdfast.cli.terminal import Terminal
from holdfast.model.hub_status import StatusFinding

ROOT = Path(__file__).parents[3]


def transcript(first_words: str) -> tuple[str, list[str]]:
    """The command of a console block, and the lines it prints; "…" stands for lines that are left out."""
    blocks = re.findall(
        r"^```console\n\$ (.*?)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (found,) = [(command, lines.splitlines()) for command, lines in blocks if command.startswith(first_words)]
    return found[0], [line for line in found[1] if line != "…"]


def test_the_first_plan_in_the_readme_is_as_printed(tmp_path: Path) -> None:
    command, lines = transcript("holdfast init")
    env = {"PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(lines) == 4 and [line for line in printed if line in lines] == lines


def test_a_finding_of_the_hub_in_the_readme_is_as_printed_n54() -> None:
    _, lines = transcript("holdfast lab up")
    finding = StatusFinding("node_unhealthy", "error", "w1: no contact for 21 s", "look at it", "node.w1")
    terminal = Terminal(io.StringIO(), io.StringIO(), io.StringIO())
    assert show_finding.text(finding, terminal, " (unhealthy for 6 s)", by="the hub").lines[0] in lines
