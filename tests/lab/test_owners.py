"""An image that runs as user 1000 on real podman: it can write its volume and has its seed (N13), and a volume that it
declares is asked for (N14)."""

from pathlib import Path

import pytest

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
