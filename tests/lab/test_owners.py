"""An image that runs as user 1000 on real podman: it can write its volume and has its seed (N13), and a volume that it
declares is asked for (N14)."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import DeployScene, web
from tests.fleets.waiting import wait_until

VOLUME = '[[components.volumes]]\nname = "files"\npath = "/data"\nprotect = "none"\n'
TEXT = """FROM {image}
USER 0
RUN mkdir -p /data && echo from the image > /data/seed && chown -R 1000:1000 /data && chmod 0750 /data
USER 1000
VOLUME /data
ENTRYPOINT []
CMD ["/bin/hello"]
"""


@pytest.fixture
def scene(deploy_lab: DeployScene) -> DeployScene:
    return deploy_lab


def finding(scene: DeployScene, service: str) -> bool:
    told = scene.run("status").out
    return "undeclared" in told and f"services/{service}.toml" in told


def test_an_image_that_runs_as_another_user_writes_its_volume_and_keeps_it_n13_n14(
    scene: DeployScene, tmp_path: Path
) -> None:
    image = scene.build(tmp_path / "image", "seeded:1", TEXT.format(image=scene.image("hello:1")))
    scene.write("owned", web(image))
    done = scene.deploy("owned").ok()
    assert 'scratch = ["/data"]' in done.out + done.err, "the deployment tells what has to be answered"
    wait_until(lambda: finding(scene, "owned"), "the volume that the image declares is a finding")
    scene.write("owned", web(image) + VOLUME)
    scene.deploy("owned").ok()
    one = scene.one("owned")
    assert scene.podman("exec", one.id, "id", "-u").strip() == "1000"
    scene.podman("exec", one.id, "sh", "-c", "echo mine > /data/mine")
    assert scene.podman("exec", one.id, "cat", "/data/seed", "/data/mine").splitlines() == ["from the image", "mine"]
    files = scene.data("owned", "files")
    assert (files.stat().st_uid, files.stat().st_gid, files.stat().st_mode & 0o7777) == (1000, 1000, 0o750)
    wait_until(lambda: not finding(scene, "owned"), "the finding is answered")
    hook = 'hooks = { post_deploy = ["sh", "-c", "echo $(id -u):$(id -g) > /data/hook"] }\nhealth ='
    text = web(image, env={"A": "1"}, user="1000:1001").replace("health =", hook, 1)
    scene.write("owned", text + VOLUME)
    scene.deploy("owned").ok()
    again = scene.one("owned")
    assert again.id != one.id
    assert scene.podman("exec", again.id, "cat", "/data/seed", "/data/mine").splitlines() == ["from the image", "mine"]
    assert scene.podman("exec", again.id, "sh", "-c", "echo $(id -u):$(id -g)").strip() == "1000:1001"
    wait_until((files / "hook").exists, "the hook ran")
    assert (files / "hook").read_text().strip() == "1000:1001", "hooks run as the user of their component"
    assert scene.podman("volume", "ls", "--quiet").strip() == "", "no anonymous volume is left behind"
    leftovers = scene.podman("ps", "--all", "--format", "{{.Names}}").split()
    assert [name for name in leftovers if name.endswith("-pre")] == []


FILES = 120
MANY = """FROM {image}
RUN mkdir -p /data/inner && i=0 && while [ $i -lt {count} ]; do echo $i > /data/inner/$i; i=$((i+1)); done
ENTRYPOINT []
CMD ["/bin/hello"]
"""
WHOLE = {f"inner/{number}": f"{number}\n" for number in range(FILES)}
# One fchown for each file and directory that is unpacked; the copy is put in its place by one of the renames.
POSITIONS: Sequence[tuple[str, Sequence[int]]] = (
    ("fchown", range(1, FILES + 3) if SOAK else (60,)),
    ("renameat", range(1, 12) if SOAK else ()),
    ("fsync", range(1, 30) if SOAK else ()),
    ("syncfs", range(1, 4) if SOAK else (1,)),
)


def content(volume: Path) -> dict[str, str]:
    files = (path for path in volume.rglob("*") if path.is_file())
    return {str(path.relative_to(volume)): path.read_text() for path in files}


def test_an_agent_killed_while_it_fills_a_volume_leaves_it_empty_or_whole_and_fills_it_again_n13(
    scene: DeployScene, tmp_path: Path
) -> None:
    image = scene.build(tmp_path / "image", "many:1", MANY.format(image=scene.image("hello:1"), count=FILES))
    hits = dict.fromkeys((call for call, _ in POSITIONS), 0)
    for call, positions in POSITIONS:
        for n in positions:
            name = f"filled-{call}-{n}"
            volume = scene.data(name, "files")
            scene.write(name, web(image) + VOLUME)
            with scene.meddled(f"{call}:signal=SIGKILL:when={n}") as killer:
                scene.run("apply", "--yes", "--detach").ok()
                wait_until(lambda: killer.has_killed() or bool(scene.running(name)), "killed, or past it")  # noqa: B023
            if is_hit := killer.has_killed():
                hits[call] += 1
                assert content(volume) in ({}, WHOLE), f"{name}: half of it"
                scene.start_agent()
            wait_until(lambda: bool(scene.running(name)), f"{name} runs after {is_hit=}", 60)  # noqa: B023
            assert content(volume) == WHOLE, name
            assert not scene.data(name, ".filling").exists()
            scene.gone(name)
            scene.run("apply", "--yes", "--allow-removals", "1").ok()
    assert hits["fchown"] >= (FILES if SOAK else 1) and all(hits[call] for call, few in POSITIONS if few), hits
