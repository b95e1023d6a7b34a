"""The systemd units that are shipped: accepted by systemd itself, and hardened."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

# An agent keeps data with its owners, reads whether other people's processes live, and its sender stops being root.
EXPOSURE_MAX = {
    "holdfast-agent.service": 2.9,
    "holdfast-hub.service": 2.0,
    "holdfast-proxy.service": 2.0,
    "holdfast-mounts.service": 4.0,  # what it mounts must be seen in the machine's own namespace
}
WITHOUT_STATE = {"holdfast-mounts.service"}
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
    assert unit.name in WITHOUT_STATE or "StateDirectoryMode=0700" in unit.read_text()


AGENT = next(path for path in UNITS if path.name == "holdfast-agent.service").read_text()
MAY_BIND = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # CAP_NET_BIND_SERVICE, permitted and effective
COPY = """import sys
from holdfast.adapters.storage.directory import DirectoryStorage
print(DirectoryStorage(sys.argv[1], "w1").checkpoint("web", "a" * 32, 0.0).path)
"""


def agents_setting(name: str) -> list[str]:
    (value,) = re.findall(rf"(?m)^{name}=(.*)$", AGENT)
    return str(value).split()


def test_the_agents_rights_keep_owners_and_capabilities_of_programs_in_a_checkpoint(tmp_path: Path) -> None:
    """A copy leaves out an attribute that it may not set, so a missing right would lose it unnoticed."""
    program = tmp_path / "web" / "files" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("listens on port 80")
    os.chown(program, 4000, 5000)
    program.chmod(0o4755)
    os.setxattr(program, "security.capability", MAY_BIND)
    kept = [f"+{right.removeprefix('CAP_').lower()}" for right in agents_setting("CapabilityBoundingSet")]
    rights = ["setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", ",".join(["-all", *kept])]
    words = [*rights, sys.executable, "-c", COPY, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    copied = Path(done.stdout.strip()) / "files" / "program"
    about = copied.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (4000, 5000, 0o4755)
    assert os.listxattr(copied) == ["security.capability"]
    assert os.getxattr(copied, "security.capability") == MAY_BIND


def test_the_dns_server_that_the_agent_starts_may_use_netlink() -> None:
    """N02: dnsmasq ends at once without it; tests/lab/test_booted.py shows that it serves under this unit."""
    assert "AF_NETLINK" in agents_setting("RestrictAddressFamilies")


def test_what_the_agent_may_write_in_run_exists_at_its_start() -> None:
    """systemd makes only paths writable that exist when it starts the agent, and after a boot /run is empty: an exit
    code could not be written for a container whose supervisor ended. tests/lab/booted.py ends one after a boot."""
    wanted = {path.lstrip("-") for path in agents_setting("ReadWritePaths") if path.startswith("-/run/")}
    assert set(agents_setting("ExecStartPre")[2:]) == wanted
