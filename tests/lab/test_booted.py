"""The shipped units, in a booted Debian that is hub and node, installed and joined as docs/guides/nodes.md says.

Its blocks are run as they are; only addresses, keys and `--yes` are filled in. `make setup` builds the base of the
machine. tests/lab/booted.py tries more; `make soak` runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.lab import oci_image, registry, samples
from tests.fleets import machine as machines
from tests.fleets import machine_base
from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import LABEL
from tests.fleets.machine import Machine
from tests.fleets.machine_fleet import NODE, MachineFleet
from tests.fleets.waiting import wait_until
from tests.lab.product import PYTHON

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

UNITS = ("holdfast-hub", "holdfast-agent", "holdfast-proxy")
ZONE = "holdfast.internal"  # the default
WATCHDOG_S = 4
HAS_COUNTER = Path("/sys/fs/cgroup/cgroup.controllers").exists()
SHOP = """node = "w1"

[[components]]
name = "web"
image = "REGISTRY/hello:1"

[[components.routes]]
name = "http"
port = 8080
"""


def shell(script: str, *more: str) -> str:
    """A service without a route and without a check."""
    lines = [
        f'node = "{NODE}"',
        "[[components]]",
        'name = "web"',
        'image = "REGISTRY/shell:1"',
        f"cmd = {json.dumps([script])}",
        *more,
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineFleet]:
    """Made by the guide alone: the hub has no right that its documentation does not give it."""
    with machines.booted(NODE) as machine:
        base = samples.images()[0].blobs[1]
        registry.push(machine.blueprint, [oci_image.image("shell", "1", [base], ["/bin/sh", "-c"], {})])
        made = MachineFleet(machine, tmp_path_factory.mktemp("booted"))
        made.install()
        made.begin()
        made.join(made.start_hub())
        made.write("shop", SHOP)
        made.run("deploy", "shop", "--yes").ok()
        yield made


def containers(machine: Machine) -> dict[str, int]:
    """Container and process, of those of the service that run."""
    listed = machine.podman("ps", "--quiet", "--no-trunc", "--filter", f"label={LABEL}=shop").split()
    return {one: int(machine.podman("inspect", "--format", "{{.State.Pid}}", one)) for one in listed}


def settled(fleet: MachineFleet) -> None:
    """Healthy, and nothing is found but that agents were started more often than a hub allows, which stays a while."""

    def is_well() -> bool:
        shown = fleet.run("node", "show", NODE, "--json")
        if shown.code or shown.json["status"] != "healthy":
            return False
        return {one["code"] for one in shown.json["findings"]} <= {"hub_limits"}

    wait_until(is_well, lambda: fleet.run("node", "show", NODE).out)


def test_the_documented_path_makes_a_fleet_that_serves_n01_n02_m125_m131_h16(fleet: MachineFleet) -> None:
    """M-125: the program and its units come from no package of the system. M-131: a node registers itself, reports,
    and is in `ps` and `node list`. N01: the hub's user enters the directories that `hub init` made."""
    machine = fleet.machine
    states = {unit: fleet.unit(unit, "ActiveState") for unit in UNITS}
    assert set(states.values()) == {"active"}, states
    enabled = [machine.run("systemctl", "is-enabled", unit).out.strip() for unit in ("holdfast-hub", "holdfast-agent")]
    assert enabled == ["enabled", "enabled"]
    assert machine.sh("stat -c %a /var/lib/holdfast").strip() == "755"
    assert machine.sh(f"ps -o user= -p {fleet.unit('holdfast-hub', 'MainPID')}").strip() not in ("", "root")
    for path in ("/usr/local/bin/holdfast", "/etc/systemd/system/holdfast-agent.service"):
        assert machine.run("dpkg", "--search", path).code == 1, "a package owns it"
    (node,) = [one for one in fleet.run("node", "list", "--json").ok().json["nodes"] if one["name"] == NODE]
    assert (node["status"], node["address"]) == ("healthy", machine.site.address)
    assert fleet.row("shop")["state"] == "running"
    wait_until(lambda: fleet.asked(f"web.shop.{ZONE}") == [machine.site.address], "the node's DNS answers (N02)")
    settled(fleet)


def test_containers_keep_running_while_agents_end_and_no_podman_service_leaks_n06(fleet: MachineFleet) -> None:
    """I-01: a restart, and a kill that systemd answers with a new agent."""
    machine, before = fleet.machine, containers(fleet.machine)
    assert before
    for words in ("restart", "kill --kill-whom main --signal KILL"):
        life = fleet.unit("holdfast-agent", "MainPID")
        machine.sh(f"systemctl {words} holdfast-agent")
        wait_until(lambda life=life: fleet.unit("holdfast-agent", "MainPID") not in ("0", life), "another agent runs")  # type: ignore[misc]
        wait_until(lambda: fleet.unit("holdfast-agent", "ActiveState") == "active", "it is ready")
    settled(fleet)
    assert containers(machine) == before
    found = machine.run("pgrep", "--full", "podman.* system service").out.split()
    groups = {pid: machine.run("cat", f"/proc/{pid}/cgroup").out for pid in found}
    assert [pid for pid, group in groups.items() if group and "/podman.service" not in group] == []


def test_an_agent_that_hangs_is_killed_and_restarted_h16(fleet: MachineFleet) -> None:
    """The unit that is shipped has a watchdog of a minute; here it is shorter."""
    machine, before = fleet.machine, containers(fleet.machine)
    assert fleet.unit("holdfast-agent", "WatchdogUSec") == "1min"
    folder = "/etc/systemd/system/holdfast-agent.service.d"
    machine.sh(
        f"mkdir -p {folder} && printf '[Service]\\nWatchdogSec={WATCHDOG_S}\\n' > {folder}/watchdog.conf\n"
        "systemctl daemon-reload && systemctl restart holdfast-agent"
    )
    try:
        pid = fleet.unit("holdfast-agent", "MainPID")
        restarts = int(fleet.unit("holdfast-agent", "NRestarts"))
        machine.sh(f"kill -STOP {pid}")
        wait_until(lambda: int(fleet.unit("holdfast-agent", "NRestarts")) > restarts, "systemd restarts it")
        said = machine.sh("journalctl --no-pager --output cat --unit holdfast-agent")
        assert "Watchdog timeout" in said
        wait_until(lambda: fleet.unit("holdfast-agent", "ActiveState") == "active", "it is ready")
        settled(fleet)
        assert fleet.unit("holdfast-agent", "MainPID") != pid and containers(machine) == before
    finally:
        machine.sh(f"rm -r {folder} && systemctl daemon-reload && systemctl restart holdfast-agent")


def test_the_journal_says_how_to_open_a_directory_to_the_hub_n01(fleet: MachineFleet) -> None:
    """`hub init` of an older release closed the directory above. The unit tries again, so that the remedy is enough."""
    machine = fleet.machine
    machine.sh("chmod 700 /var/lib/holdfast; ! systemctl restart holdfast-hub")
    said = machine.sh("journalctl --no-pager --output cat --unit holdfast-hub").splitlines()
    (remedy,) = {line.removeprefix("remedy: ") for line in said if line.startswith("remedy: ")}
    assert remedy == "chmod a+x /var/lib/holdfast"
    machine.sh(remedy)
    wait_until(lambda: fleet.unit("holdfast-hub", "ActiveState") == "active", "the hub runs")
    settled(fleet)


def test_a_crash_loop_is_restarting_and_a_stopped_service_is_held_under_the_units_n16_n17(fleet: MachineFleet) -> None:
    """`settle`: a service that has no route and no check must run for three seconds. N20: who was killed for memory."""
    fleet.write("brief", shell("echo no such table; sleep 1; exit 7"))
    failed = fleet.run("deploy", "brief", "--yes")
    assert failed.code == 1 and "exit 7" in failed.err and "no such table" in failed.err, failed
    fleet.gone("brief")
    fleet.run("undeploy", "brief", "--yes").ok()
    fleet.write("greedy", shell("sleep 3.5; x=a; while :; do x=$x$x; done", 'resources = { memory = "24Mi" }'))
    fleet.run("deploy", "greedy", "--yes", "--detach").ok()
    wait_until(lambda: fleet.row("greedy")["state"] == "restarting", lambda: fleet.row("greedy"))
    found = fleet.row("greedy")
    # Without control groups of version 2 only the kernel's log tells why, and the unit hides that from the agent.
    told = "137 oom" if HAS_COUNTER else "137"
    assert found["restarts"] >= 2 and found["last_exit"] == told, found
    wait_until(lambda: any(one.startswith("crash_loop service.greedy") for one in fleet.findings()), "it is told")
    fleet.gone("greedy")
    fleet.run("undeploy", "greedy", "--yes").ok()
    fleet.run("stop", "shop", "--yes").ok()
    assert fleet.row("shop")["state"] == "held"
    fleet.run("start", "shop", "--yes").ok()
    wait_until(lambda: fleet.row("shop")["state"] == "running", lambda: fleet.row("shop"))


DISK = """set -e
test -e /dev/loop-control || mknod /dev/loop-control c 10 237
truncate -s 16M /root/disk && mkfs.ext4 -q -U UUID /root/disk
for number in $(seq 0 63); do test -e /dev/loop$number || mknod /dev/loop$number b 7 $number; done
losetup --find --show /root/disk
"""
USB, STICK = str(uuid.uuid4()), str(uuid.uuid4())  # disks of a killed run may still be attached


def test_a_disk_is_mounted_for_the_agent_which_has_no_right_to_mount_h48(fleet: MachineFleet) -> None:
    """The agent's own namespace sees the mount, and may write there."""
    machine = fleet.machine
    loop = machine.sh(DISK.replace("UUID", USB)).strip()
    agent = fleet.unit("holdfast-agent", "MainPID")
    bounded = machine.sh(f"grep CapBnd /proc/{agent}/status").split()[1]
    assert not int(bounded, 16) & 1 << 21, "CAP_SYS_ADMIN"
    home, asked = "/var/lib/holdfast/agent/mounts", json.dumps({"verb": "VERB", "uuid": USB})

    def ask(verb: str) -> dict[str, str]:
        listed = json.dumps({"targets": {"usb": USB}})
        machine.sh(
            f"mkdir -p {home}/requests && echo '{listed}' > {home}/allowed.json && rm -f {home}/results/usb.json\n"
            f"echo '{asked.replace('VERB', verb)}' > {home}/usb && mv {home}/usb {home}/requests/usb.json"
        )
        wait_until(lambda: machine.run("test", "-e", f"{home}/results/usb.json").code == 0, "there is a result")
        found: dict[str, str] = json.loads(machine.sh(f"cat {home}/results/usb.json"))
        return found

    try:
        machine.sh("ln -sf /opt/holdfast/.venv/bin/holdfast-mounts /usr/local/bin/")
        machine.sh("systemctl enable --now holdfast-mounts.path")
        assert fleet.unit("holdfast-mounts.path", "ActiveState") == "active"
        assert ask("mount")["state"] == "mounted", machine.sh("journalctl --no-pager --unit holdfast-mounts")
        place = "/run/holdfast/storage/usb"
        seen = [line.split() for line in machine.sh(f"cat /proc/{agent}/mountinfo").splitlines()]
        options = [set(one[5].split(",")) for one in seen if one[4] == place]  # of /run, and of /run/holdfast on it
        assert options and all({"rw", "nosuid", "nodev", "noexec"} <= one for one in options)
        machine.sh(f"nsenter --target {agent} --mount touch {place}/written")
        assert machine.sh(f"ls {place}/written")
        assert ask("unmount")["state"] == "unmounted"
        assert place not in machine.sh(f"cat /proc/{agent}/mountinfo")
    finally:
        machine.sh(f"losetup --detach {loop}; rm -rf /root/disk {home}")


NOTES = """node = "w1"

[[components]]
name = "web"
image = "REGISTRY/hello:1"
health = { type = "http", path = "/health", port = 8080 }

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"
"""


def test_a_disk_gets_backups_under_the_shipped_units_and_what_it_missed_when_it_is_back_h48(
    fleet: MachineFleet,
) -> None:
    """Mounted by holdfast-mounts.path; written by an agent that may not mount. A drill proves one of them there,
    without a right to enter the network of its containers (H-60)."""
    machine = fleet.machine
    machine.sh("ln -sf /opt/holdfast/.venv/bin/holdfast-mounts /usr/local/bin/")
    machine.sh("systemctl enable --now holdfast-mounts.path")
    loop = machine.sh(DISK.replace("UUID", STICK).replace("16M", "128M").replace("/root/disk", "/root/stick")).strip()
    file, place = fleet.fleet / "fleet.toml", "/run/holdfast/storage/stick"
    table = f'\n[[storage]]\nname = "stick"\ntype = "usb"\ndurable_id = "{STICK}"\nnodes = ["{NODE}"]\n'

    def held() -> set[str]:
        found = fleet.run("backup", "list", "notes", "--json").ok().json["backups"]
        return {one["target"] for one in found[-1]["copies"]} if found else set()

    try:
        file.write_text(file.read_text() + table)
        fleet.write("notes", NOTES)
        fleet.run("apply", "--yes").ok()
        fleet.run("backup", "notes", "--wait").ok()
        wait_until(lambda: held() == {"hub", "stick"}, lambda: fleet.run("backup", "list").err)
        assert machine.sh(f"ls -A {place}").split() and ".holdfast-target" in machine.sh(f"ls -A {place}")
        agent = fleet.unit("holdfast-agent", "MainPID")
        assert not int(machine.sh(f"grep CapBnd /proc/{agent}/status").split()[1], 16) & 1 << 21, "CAP_SYS_ADMIN"
        proven = fleet.run("drill", "notes", "--json").ok().json
        assert proven["verdict"] == "verified" and "web is healthy: http 8080 /health" in proven["checks"], proven
        names = machine.sh("podman ps --all --format {{.Names}}; podman network ls --format {{.Name}}")
        assert "drill" not in names and not machine.sh("ls -A /srv/.drills"), names
        machine.sh(f"umount -l {place}")
        wait_until(lambda: machine.run("mountpoint", "-q", place).code == 0, "the agent has it mounted again")
        fleet.run("backup", "notes", "--wait").ok()
        wait_until(lambda: held() == {"hub", "stick"}, lambda: fleet.run("backup", "list").err)
    finally:
        try:
            fleet.gone("notes")
            file.write_text(file.read_text().replace(table, ""))
            fleet.run("apply", "--yes", "--allow-removals", "2").ok()
            wait_until(lambda: machine.run("mountpoint", "-q", place).code != 0, "it is unmounted")
        finally:
            machine.sh(f"umount -l {place} 2> /dev/null; losetup --detach {loop}; rm -rf /root/stick")


def test_the_timer_of_the_guide_makes_files_of_the_hub_and_takes_nothing_from_it_n77(fleet: MachineFleet) -> None:
    """As printed in docs/guides/disaster.md. Its service had a user that no machine has (217/USER): there was no file
    when it was needed. Also while the hub does not run: its files stay its own."""
    machine = fleet.machine
    guide = (machine_base.CHECKOUT / "docs" / "guides" / "disaster.md").read_text()
    found = re.findall(r"^# (/etc/systemd/system/\S+)\n(.*?)(?=^# /etc|^```$)", guide, re.DOTALL | re.MULTILINE)
    assert [Path(path).suffix for path, _ in found] == [".service", ".timer"]
    machine.sh("mkdir -p -m 700 /mnt/elsewhere")
    for path, text in found:
        machine.run("sh", "-c", f"cat > {path}", given=text).ok()
    service, timer = (Path(path).name for path, _ in found)
    machine.sh(f"systemctl daemon-reload && systemctl enable --now {timer} && systemctl start {service}")
    assert len(machine.sh("ls /mnt/elsewhere").split()) == 1
    machine.sh(f"systemctl stop holdfast-hub; sleep 1; systemctl start {service}; systemctl start holdfast-hub")
    assert len(machine.sh("ls /mnt/elsewhere").split()) == 2
    owners = set(machine.sh("stat -c %u /var/lib/holdfast/hub/*").split())
    assert len(owners) == 1 and "0" not in owners, machine.sh("ls -la /var/lib/holdfast/hub/")
    settled(fleet)


def test_a_boot_brings_everything_back_h16(fleet: MachineFleet) -> None:
    machine = fleet.machine
    machine.reboot()
    wait_until(lambda: fleet.run("ps", "shop", "--json").code == 0, "the hub answers")
    wait_until(lambda: fleet.row("shop")["state"] == "running", lambda: fleet.row("shop"))
    settled(fleet)
    assert len(containers(machine)) == 1
    wait_until(lambda: fleet.asked(f"web.shop.{ZONE}") == [machine.site.address], "the node's DNS answers (N02)")
    failed = machine.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").out
    assert "holdfast" not in failed and "podman" not in failed
    for unit in UNITS:
        said = machine.sh(f"journalctl --no-pager --output cat --unit {unit}").splitlines()
        assert said and not [one for one in said if any(word in one for word in WRONG)]


WRONG = ("Traceback", "internal_error", "not permitted", "Permission denied")


LEFT = """
import time
from tests.fleets import machine
with machine.made("left") as one:
    one.start()
    print(one.room, flush=True)
    time.sleep(1000)
"""


if SOAK:  # some minutes

    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize("on_btrfs", [False, True], ids=["disk", "btrfs"])
    def test_everything_that_needs_a_right_of_the_machine_works_under_the_units(on_btrfs: bool) -> None:
        """Volumes, checkpoints, purges, secrets, schedules, alerts, a silent hub, restarts, boots: in a process of its
        own, so that its lines can be read while it runs (pytest -s)."""
        words = [PYTHON, "tests/lab/booted.py", *(["--btrfs"] if on_btrfs else [])]
        done = subprocess.run(words, cwd=machine_base.CHECKOUT, stdin=subprocess.DEVNULL)
        assert done.returncode == 0


def test_a_machine_of_a_killed_test_is_removed_by_the_next_one(fleet: MachineFleet) -> None:
    """It ran beside the machine of this test, on other addresses; the next one removes it, and not ours."""
    words = [PYTHON, "-c", LEFT]
    env = {**os.environ, "PYTHONPATH": str(machine_base.CHECKOUT)}
    left = subprocess.Popen(words, env=env, cwd=machine_base.CHECKOUT, stdout=subprocess.PIPE, text=True)
    try:
        assert left.stdout is not None
        room = Path(left.stdout.readline().strip())
    finally:
        left.kill()
        left.communicate(timeout=60)
    assert room.parent == machines.MACHINES and any("process" in one for one in machines.traces(room))
    with machines.made("next"):
        assert machines.traces(room) == []
        assert fleet.machine.room.is_dir() and fleet.unit("holdfast-agent", "ActiveState") == "active"
