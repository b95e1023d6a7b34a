"""Data has a passport, with real podman: another writer leaves a checkpoint, and what was made by hand is attached by
an order only."""

import json
from pathlib import Path

import pytest

from tests.fleets.deploy_scene import NODE, DeployScene, web
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until

VOLUME = '[[components.volumes]]\nname = "files"\npath = "/data"\nprotect = "none"\n'


def with_hook(text: str, *command: str) -> str:
    return text.replace("health =", f"hooks = {{ post_deploy = {json.dumps(command)} }}\nhealth =", 1)


def checkpoints(scene: DeployScene, service: str) -> list[str]:
    folder = scene.data(".checkpoints", service)
    return sorted(page.read_text() for page in folder.glob("*/files/page")) if folder.exists() else []


@pytest.fixture
def scene(deploy_lab: DeployScene) -> DeployScene:
    return deploy_lab


def test_programs_that_wipe_the_data_leave_checkpoints_of_it_x01(scene: DeployScene, tmp_path: Path) -> None:
    """Grade apply may run a bad program on its own service: what was there before is out of its reach."""
    text = f'FROM {scene.image("hello:1")}\nENTRYPOINT []\nCMD ["/bin/hello"]\n'
    plain = web(scene.build(tmp_path / "image", "shell:1", text)) + VOLUME
    scene.write("wiped", plain)
    scene.deploy("wiped").ok()
    page = scene.data("wiped", "files") / "page"
    page.write_text("the only copy")
    scene.write("wiped", with_hook(plain, "sh", "-c", "rm -f /data/*"))
    done = scene.deploy("wiped").ok()
    assert "checkpoint web" in done.out + done.err
    assert not page.exists() and checkpoints(scene, "wiped") == ["the only copy"]
    page.write_text("written since")
    scene.run("undeploy", "wiped", "--yes").ok()
    scene.write("wiped", web(scene.image("hello:2")) + VOLUME)
    scene.deploy("wiped").ok()
    assert checkpoints(scene, "wiped") == ["the only copy", "written since"]
    passport = json.loads((scene.data(".passports", "wiped") / "files.json").read_bytes())
    assert passport["signature"].startswith("-----BEGIN SSH SIGNATURE-----")


def test_what_was_made_by_hand_is_attached_by_an_order_only_and_not_purged_in_use_x02_x06(scene: DeployScene) -> None:
    files = scene.data("by-hand", "files")
    files.mkdir(parents=True)
    (files / "page").write_text("made by hand")
    scene.write("by-hand", web(scene.image("hello:1")) + VOLUME)
    failed = scene.deploy("by-hand")
    assert failed.code == 1 and "that this agent did not make" in failed.out + failed.err, failed
    assert "holdfast volume adopt by-hand" in failed.out + failed.err
    assert scene.running("by-hand") == []
    words = ("by-hand", NODE)
    shown = runs("holdfast volume adopt {} -n {}", words, lambda line: scene.run(*line.split()[1:], "--yes"))
    assert "12 B in 1 file: page" in shown.out, shown
    wait_until(lambda: scene.running("by-hand"), "the deployment is tried again")
    one = scene.one("by-hand")
    assert scene.podman("exec", one.id, "cat", "/data/page") == "made by hand"
    assert checkpoints(scene, "by-hand") == ["made by hand"]
    purge = ("--node", NODE, "--action", "purge", "--target", "data.by-hand", "--submit", "--yes")
    scene.run("order", "sign", *purge).ok()
    wait_until(lambda: "is not purged" in scene.run("order", "list", "--json").ok().out, "the node refuses")
    assert (files / "page").read_text() == "made by hand" and scene.one("by-hand").id == one.id
