"""I-20: each of the nine steps of a move (M-106) fails once. The command names the step, the node and a remedy, nothing
is lost, and the same command goes on. `make test` takes four of them, `make soak` all."""

import json
import os
import signal
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.backup_targets import run
from tests.fleets.counts import SOAK
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome
from tests.lab.test_move_faults import fact
from tests.lab.test_moves import running

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200 if SOAK else 600)]

NAME = "shop"
MIB = 1 << 20
PACKING = "/var/lib/holdfast/agent/backups"
URL = "https://shop.example.test/"
PODMAN, DNSMASQ = "/usr/bin/podman", "/usr/sbin/dnsmasq"
SERVICE = """node = "w1"

[[components]]
name = "web"
image = "{registry}/hello:1"
health = {{ type = "exec", cmd = ["test", "!", "-e", "/data/sick"], start_period = "3s" }}

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"

[[components.routes]]
name = "http"
port = 8080
public = true
"""


class Scene:
    """The service is on `home`, and moves to `away`. The data of w2 is on a disk of
    its own, of 64 MiB."""

    def __init__(self, made: LabUnderTest) -> None:
        self.made = made
        self.home, self.away = "w1", "w2"

    def deploy(self) -> None:
        disk = self.made.home / "disk.img"
        disk.touch()
        os.truncate(disk, 64 * MIB)
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(disk))
        self.made.lab("kill", "w2", "--agent").ok()
        self.enter("w2", f"mount -o loop {disk} /srv")
        self.made.lab("start", "w2").ok()
        self.made.write(NAME, SERVICE.format(registry=self.made.registry))
        self.made.run("deploy", NAME, "--yes").ok()
        (self.data(self.home) / "page").write_text("kept")
        (self.data(self.home) / "more").write_bytes(os.urandom(4 * MIB))

    def data(self, node: str) -> Path:
        """As this node sees it."""
        return Path(f"/proc/{self.made.node(node)['pids']['node']}/root/srv/{NAME}/files")

    def migrate(self) -> Outcome:
        return self.made.run("migrate", NAME, "--to", self.away, "--force", "--yes", "--json")

    def fails(self, code: int, *words: str, or_code: int = -1) -> None:
        """The message and the remedy have these words."""
        done = self.migrate()
        assert done.code in (code, or_code), done
        told = json.loads(done.err.splitlines()[-1])
        said = f"{told['message']} ({told['remedy']})"
        print(f"exit {done.code}: {said}")
        assert told["remedy"] and all(word in said for word in words), said

    def resumes(self) -> None:
        """By the same command; then nothing is left to do."""
        done = self.migrate()
        assert done.code == 0, done
        wait_until(lambda: running(self.made, NAME) == [self.away], lambda: self.made.run("ps").out)
        assert (self.data(self.away) / "page").read_text() == "kept"
        assert self.made.run("plan").ok().out.startswith("No changes")
        wait_until(lambda: is_public(self), "visitors reach it")

    def look(self) -> None:
        """Where it is, by the file that each move writes."""
        self.home = str(tomllib.loads(self.file.read_text())["node"])
        self.away = "w2" if self.home == "w1" else "w1"

    def is_away_to(self, node: str) -> None:
        if self.away != node:
            self.resumes()
            self.look()

    @property
    def file(self) -> Path:
        return self.made.fleet / "services" / f"{NAME}.toml"

    def enter(self, node: str, script: str) -> None:
        self.made.enter(node, "sh", "-euc", script).ok()

    def healthy(self, node: str) -> bool:
        found = json.loads(self.made.run("node", "list", "--json").ok().out)["nodes"]
        return any((one["name"], one["status"]) == (node, "healthy") for one in found)

    @contextmanager
    def broken(self, node: str, program: str) -> Iterator[None]:
        """Each start of this program fails there."""
        self.enter(node, f"mount --bind /bin/false {program}")
        try:
            yield
        finally:
            self.enter(node, f"umount {program}")


@pytest.fixture
def scene(fleet: Scene) -> Scene:
    fleet.look()
    return fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with lab(tmp_path_factory.mktemp("steps"), nodes="hub1:hub,w1:worker,w2:worker,e1:edge") as made:
        made.lab("fast").ok()
        found = Scene(made)
        found.deploy()
        yield found


def a_target_that_is_not_healthy(scene: Scene) -> None:
    scene.made.lab("kill", scene.away, "--agent").ok()
    wait_until(lambda: not scene.healthy(scene.away), "it is unhealthy")
    scene.fails(3, f"cannot move to {scene.away}", "not healthy", "nodes that could take it: none")
    assert running(scene.made, NAME) == [scene.home]
    scene.made.lab("start", scene.away).ok()
    wait_until(lambda: scene.healthy(scene.away), "it is back")
    scene.resumes()


def the_source_cannot_stop_it(scene: Scene) -> None:
    with scene.broken(scene.home, PODMAN):
        scene.enter(scene.home, "kill -9 $(pidof podman)")
        scene.fails(1, "'stop'", f"on {scene.home}", "the same command follows", "--abort")
        assert is_public(scene), "it still serves"
    scene.resumes()


def the_source_cannot_write_what_it_packs(scene: Scene) -> None:
    scene.enter(scene.home, f"mount -t tmpfs -o ro tmpfs {PACKING}")
    scene.fails(1, "'copy'", f"on {scene.home}", "Read-only file system", PACKING, "--abort")
    assert running(scene.made, NAME) == [scene.home]
    scene.enter(scene.home, f"umount {PACKING}")
    scene.resumes()


def the_disk_of_the_target_is_full(scene: Scene) -> None:
    scene.is_away_to("w2")
    scene.enter("w2", "dd if=/dev/zero of=/srv/filler bs=64k 2>/dev/null || truncate -s -1M /srv/filler")
    scene.fails(1, "'receive'", "on w2", "bytes free", "free some space", "--abort")
    assert running(scene.made, NAME) == ["w1"]
    scene.enter("w2", "rm /srv/filler")
    scene.resumes()


def the_target_cannot_get_the_image(scene: Scene) -> None:
    registry = scene.made.registry.partition(":")[0]
    scene.enter(scene.away, f"podman rmi --all --force; ip route add blackhole {registry}/32")
    try:
        scene.fails(1, f"on {scene.away}", "cannot pull", "can reach", "--abort")
        assert running(scene.made, NAME) == [scene.home], "it was not stopped for that"
    finally:
        scene.enter(scene.away, f"ip route del blackhole {registry}/32")
    scene.resumes()


def it_is_not_healthy_at_the_target(scene: Scene) -> None:
    """The same command tries the start again; it only repeated the failure, and the remedy was to deploy again."""
    (scene.data(scene.home) / "sick").touch()
    again = f"migrate {NAME} --to {scene.away}` tries the same again", f"migrate {NAME} --abort` takes the move back"
    scene.fails(1, f"was not deployed on {scene.away}: step 'healthy web 0' failed", *again)
    scene.fails(1, "step 'healthy web 0' failed", *again)
    (scene.data(scene.away) / "sick").unlink()
    scene.resumes()


def the_edge_does_not_learn_the_new_address(scene: Scene) -> None:
    with scene.broken("e1", DNSMASQ):
        os.kill(int(scene.made.node("e1")["pids"]["dns"]), signal.SIGKILL)
        scene.fails(1, "'dns'", "e1", "continues")
        assert running(scene.made, NAME) == [scene.away]
    scene.resumes()


def the_edge_does_not_serve_the_route(scene: Scene) -> None:
    proxy = int(scene.made.node("e1")["pids"]["proxy"])
    with scene.broken("e1", os.readlink(f"/proc/{proxy}/exe")):
        os.kill(proxy, signal.SIGKILL)
        scene.fails(1, "edge e1", "envoy", or_code=6)  # it gave up, or is about to
        assert running(scene.made, NAME) == [scene.away]
    wait_until(lambda: "proxy" in scene.made.node("e1")["pids"], "the proxy runs again")
    wait_until(lambda: is_public(scene), "it serves the route")
    scene.resumes()


def is_public(scene: Scene) -> bool:
    return scene.made.lab("curl", URL).code == 0


def the_source_dies_before_it_has_cleaned_up(scene: Scene) -> None:
    """The move is recorded and done all the same; the containers that are left there go when it is back."""
    move = scene.made.begin("migrate", NAME, "--to", scene.away, "--force", "--yes", "--json")
    agent, name = int(scene.made.node(scene.home)["pids"]["agent"]), f"moves/out/{NAME}"
    before = fact(scene.made, scene.home, name)
    wait_until(lambda: (now := fact(scene.made, scene.home, name)) != before and b'"handover"' in now, "it signed")
    os.kill(agent, signal.SIGKILL)
    _, err = move.communicate()
    assert move.returncode in (0, 6) and (move.returncode == 0 or scene.home in err), err
    print(err)
    wait_until(lambda: running(scene.made, NAME) == [scene.away], "it runs there")
    scene.made.lab("start", scene.home).ok()
    scene.resumes()
    words = "podman", "ps", "--all", "--quiet", "--filter", f"label=holdfast.service={NAME}"
    wait_until(lambda: scene.made.enter(scene.home, *words).ok().out == "", "nothing is left of it there")


def the_hub_does_not_answer_when_the_move_is_recorded(scene: Scene) -> None:
    scene.made.lab("kill", "hub").ok()
    scene.fails(6, "hub")
    assert running_inside(scene.made, scene.home), "nothing changed"
    scene.made.lab("start", "hub").ok()
    wait_until(lambda: scene.healthy(scene.away), "it is back")
    scene.resumes()


def running_inside(made: LabUnderTest, node: str) -> bool:
    return NAME in made.enter(node, "podman", "ps", "--format", "{{.Names}}").ok().out


def a_service_that_is_removed_while_it_moves_keeps_its_data_where_it_was(scene: Scene) -> None:
    """And the list does not say that it runs elsewhere."""
    target = int(scene.made.node(scene.away)["pids"]["agent"])
    os.kill(target, signal.SIGSTOP)
    try:
        scene.made.run("migrate", NAME, "--to", scene.away, "--force", "--yes", "--detach").ok()
        scene.made.run("undeploy", NAME, "--yes", "--detach").ok()
    finally:
        os.kill(target, signal.SIGCONT)
    wait_until(lambda: f"{NAME}  {scene.home}" in scene.made.run("retired").ok().out, "its node reports the data")
    (line,) = (
        one for one in scene.made.run("retired").ok().out.splitlines() if one.startswith(f"{NAME}  {scene.home}")
    )
    assert "fenced" in line and "placed on another node when revision" in line and "removed it" in line
    assert (scene.data(scene.home) / "page").read_text() == "kept"
    refused = scene.made.run("retired", "restore", NAME, "-n", scene.home, "--yes")
    assert refused.code == 2 and f'write node = "{scene.home}" into services/{NAME}.toml' in refused.err, refused
    scene.file.write_text(scene.file.read_text().replace(f'node = "{scene.away}"', f'node = "{scene.home}"'))
    scene.made.run("deploy", NAME, "--yes").ok()
    wait_until(lambda: running(scene.made, NAME) == [scene.home], "it runs there again")
    assert (scene.data(scene.home) / "page").read_text() == "kept"


# In the order of M-106.
CASES: Sequence[Callable[[Scene], None]] = [
    a_target_that_is_not_healthy,
    the_source_cannot_stop_it,
    the_source_cannot_write_what_it_packs,
    the_disk_of_the_target_is_full,
    the_target_cannot_get_the_image,
    it_is_not_healthy_at_the_target,
    the_edge_does_not_learn_the_new_address,
    the_edge_does_not_serve_the_route,
    the_source_dies_before_it_has_cleaned_up,
    the_hub_does_not_answer_when_the_move_is_recorded,
    a_service_that_is_removed_while_it_moves_keeps_its_data_where_it_was,
]
if not SOAK:
    CASES = [
        a_target_that_is_not_healthy,
        it_is_not_healthy_at_the_target,
        the_hub_does_not_answer_when_the_move_is_recorded,
        a_service_that_is_removed_while_it_moves_keeps_its_data_where_it_was,
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.__name__)
def test_a_step_that_fails_is_named_and_the_same_command_goes_on(scene: Scene, case: Callable[[Scene], None]) -> None:
    case(scene)
