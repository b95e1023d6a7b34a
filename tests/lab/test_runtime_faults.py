"""What breaks beneath a service: its supervisor, podman's own service, an image, a port; each heals or is explained."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from holdfast.lab import node as lab_node
from tests.fleets.deploy_scene import NODE, DeployScene, deploy_scene, is_alive
from tests.fleets.waiting import Stopwatch, wait_until
from tests.lab.product import PYTHON

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PORTS = range(20_000, 32_000)  # of which the agent chooses
HOLD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
first, last, free = map(int, sys.argv[1:])
held = []
for port in range(first, last):
    if free and port % free == 0:
        continue
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind(("0.0.0.0", port))
        one.listen(1)
        held.append(one)
    except OSError:
        one.close()  # a container has it
print(len(held), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployScene]:
    with deploy_scene(tmp_path_factory.mktemp("faults")) as scene:
        yield scene


@pytest.fixture
def scene(lab: DeployScene) -> Iterator[DeployScene]:
    yield lab
    assert lab.foreign_untouched()


def host_pids(scene: DeployScene, *words: str) -> list[int]:
    """Processes of the node whose command line has these words, as the host numbers them."""
    space = os.readlink(f"/proc/{scene.made.node(NODE)['pids']['node']}/ns/pid")
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") != space:
                continue
            line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(name))
    return found


def test_a_crash_heals_by_itself_with_the_agent_dead(scene: DeployScene) -> None:
    """H-12: podman's own policy starts it again; nobody has to notice."""
    scene.hello("crash", "hello:1")
    scene.deploy("crash").ok()
    one = scene.one("crash")
    scene.kill_agent()
    try:
        scene.inside("kill", "-9", str(one.pid))
        wait_until(lambda: any(each.pid != one.pid for each in scene.running("crash")), "it runs again")
        assert scene.one("crash").id == one.id
    finally:
        scene.start_agent()


def test_a_container_whose_supervisor_died_is_not_believed_to_run(scene: DeployScene) -> None:
    """safety: with conmon gone podman says `running` for ever; the agent looks at the process."""
    scene.hello("orphaned", "hello:1")
    scene.deploy("orphaned").ok()
    one = scene.one("orphaned")
    (conmon,) = [pid for pid in host_pids(scene, "conmon", one.id) if is_alive(pid)]
    os.kill(conmon, signal.SIGKILL)
    scene.inside("kill", "-9", str(one.pid))
    wait_until(
        lambda: any(each.identity != one.identity for each in scene.running("orphaned")),
        "another one runs",
    )
    wait_until(lambda: any(map(scene.answers, scene.running("orphaned"))), "and answers")


def test_podmans_service_may_die_at_any_time(scene: DeployScene) -> None:
    """I-01: what runs goes on; the next deploy works as if nothing had been."""
    scene.hello("served", "hello:1")
    scene.deploy("served").ok()
    old = scene.one("served")
    services = host_pids(scene, "podman", "system", "service")
    assert services, "the agent speaks to a service of podman"
    for pid in services:
        os.kill(pid, signal.SIGKILL)
    assert scene.answers(old) and scene.one("served").identity == old.identity
    scene.hello("served", "hello:2")
    scene.deploy("served").ok()
    assert json.loads(scene.answer(scene.one("served")))["version"] == "2"


@contextmanager
def ports_taken(scene: DeployScene, all_but_every: int) -> Iterator[None]:
    """Somebody listens on the agent's ports, except on every so-manieth (0: on all of them)."""
    words = [*lab_node.entering(int(scene.made.node(NODE)["pids"]["node"])), PYTHON, "-c", HOLD]
    words += [str(PORTS.start), str(PORTS.stop), str(all_but_every)]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) > len(PORTS) // 2
        yield
    finally:
        holder.communicate()


def test_a_port_that_is_taken_is_not_used(scene: DeployScene) -> None:
    """The agent chooses the node's side of a port; somebody else's is left to him."""
    with ports_taken(scene, all_but_every=3):
        scene.hello("ports", "hello:1", replicas=3)
        scene.deploy("ports").ok()
        found = scene.containers("ports")
        outside = {int(door.rpartition(":")[2]) for one in found for _, door in one.ports}
        assert len(outside) == 3 and all(port % 3 == 0 for port in outside)
        assert all(scene.answers(one) for one in found)


def test_without_a_free_port_the_deploy_fails_and_says_whom_to_look_for(scene: DeployScene) -> None:
    with ports_taken(scene, all_but_every=0):
        scene.hello("crowded", "hello:1")
        failed = scene.deploy("crowded")
        assert failed.code == 1, failed
        assert "port" in failed.err and "taken" in failed.err and "ss -ltnp" in failed.err, failed.err
        assert scene.containers("crowded") == []
    scene.run("restart", "crowded", "--yes").ok()
    assert scene.answers(scene.one("crowded")), "an operator's word is enough to try again"


def test_an_image_that_left_the_registry_is_a_clear_error(scene: DeployScene, tmp_path: Path) -> None:
    """M-46: applied by digest, deleted before the node asked for it."""
    made = scene.build(tmp_path / "lost", "lost:1", "ARG REGISTRY\nFROM $REGISTRY/hello:1\nENV LOST=1\n")
    name = made.rpartition("/")[2].partition(":")[0]
    accepted = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    with urlopen(Request(f"http://{scene.registry}/v2/{name}/manifests/1", headers=accepted), timeout=60) as answer:
        digest = answer.headers["Docker-Content-Digest"]
    with urlopen(Request(f"http://{scene.registry}/v2/{name}/manifests/{digest}", method="DELETE"), timeout=60):
        pass
    scene.hello("lost", f"{name}@{digest}")
    watch = Stopwatch()
    failed = scene.deploy("lost")
    assert failed.code == 1 and watch.within(60)
    said = failed.out + failed.err
    assert "pull" in said and name in said and "remedy" in said, said
    assert scene.containers("lost") == []
    scene.run("undeploy", "lost", "--yes").ok()
    scene.gone("lost")


def test_without_podman_a_node_says_so(scene: DeployScene, tmp_path: Path) -> None:
    """The message names what is missing and the command that brings it."""
    scene.hello("late", "hello:1")
    podman = shutil.which("podman")
    assert podman is not None
    scene.kill_agent()
    for pid in host_pids(scene, "podman", "system", "service"):
        os.kill(pid, signal.SIGKILL)
    nothing = tmp_path / "podman"
    nothing.write_text("#!/bin/sh\nexit 1\n")
    nothing.chmod(0o755)
    scene.inside("mount", "--bind", str(nothing), podman)
    try:
        scene.start_agent()
        scene.run("apply", "--yes", "--detach").ok()
        wait_until(lambda: "podman" in scene.status(), "somebody says that podman is away")
        said = scene.status()
        assert "remedy" in said
    finally:
        # The agent tries again and again: while it does, its shell has the file open.
        wait_until(lambda: scene.made.enter(NODE, "umount", podman).code == 0, "podman is back")
    wait_until(lambda: any(one.running for one in scene.containers("late")), "and it goes on by itself")
