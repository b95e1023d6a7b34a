"""The systemd units that are shipped: accepted by systemd itself, and hardened."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

# An agent keeps data with its owners, reads whether other people's processes live, and its sender stops being root.
EXPOSURE_MAX = {"holdfast-agent.service": 2.9, "holdfast-hub.service": 2.0, "holdfast-proxy.service": 2.0}
UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_to_complain_about(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened(unit: Path) -> None:
    """A15, D34: no new privileges, nothing writable but its own state, private to it."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", unit], capture_output=True, text=True, timeout=60
    )
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure and float(exposure[1]) <= EXPOSURE_MAX[unit.name], done.stdout[-400:]
    assert "StateDirectoryMode=0700" in unit.read_text()
