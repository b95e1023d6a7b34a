"""Checkpoints and purged data with real podman and real files: a restore brings image and data back, and after
`purge --now` no byte of the data is on the node."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.deploy_scene import NODE, DeployScene, web
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome
from tests.lab.test_volumes import VOLUME

NAME = "notes"
ONE, TWO = "canary-2f81c7d0-one", "canary-2f81c7d0-two"
CANARY = "canary-2f81c7d0"


@pytest.fixture
def scene(deploy_lab: DeployScene) -> DeployScene:
    return deploy_lab


def test_checkpoints_are_restored_with_their_image_and_a_purge_leaves_nothing_n11_n12(scene: DeployScene) -> None:
    page = scene.data(NAME, "files") / "page"

    def typed(line: str) -> Outcome:
        return scene.run(*line.split()[1:], "--yes")

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(scene.run("checkpoint", "list", NAME, "--json").ok().out)[
            "checkpoints"
        ]
        return found

    images = []
    for version, text in ((1, ONE), (2, TWO)):
        scene.write(NAME, web(scene.image(f"hello:{version}")) + VOLUME)
        scene.deploy(NAME).ok()
        page.write_text(text)
        images.append(scene.one(NAME).image)
    (first,) = listed()
    assert first["size_bytes"] == len(ONE) and first["before"]["revision"] == first["revision"] + 1
    runs("holdfast checkpoint list {} -n {}", (NAME, NODE), lambda line: scene.run(*line.split()[1:]))

    done = scene.run("checkpoint", "restore", NAME, first["id"], "--yes").ok()
    assert "gets the data of checkpoint" in done.out, done
    one = scene.one(NAME)
    assert page.read_text() == ONE and one.image == images[0] != images[1]
    assert scene.podman("exec", one.id, "cat", "/data/page") == ONE
    wait_until(lambda: len(listed()) == 2, "the replaced data is a checkpoint")
    replaced = listed()[-1]["id"]
    runs("holdfast checkpoint restore {} {} --data-only", (NAME, replaced), typed)
    assert page.read_text() == TWO and scene.podman("exec", scene.one(NAME).id, "cat", "/data/page") == TWO
    runs("holdfast checkpoint delete {} ID -n {}", (NAME, NODE), typed, ID=first["id"])
    order = (NODE, "delete-checkpoint", f"data.{NAME}", "checkpoint", replaced)
    runs("holdfast order sign --node {} --action {} --target {} --arg {}={} --submit", order, typed)
    wait_until(lambda: replaced not in [row["id"] for row in listed()], "the order is done")

    scene.run("undeploy", NAME, "--yes").ok()
    runs("holdfast order sign --node {} --action purge --target data.{} --submit", (NODE, NAME), typed)
    wait_until(lambda: not page.exists() and "kept until" in scene.run("retired").ok().out, "it is set aside")
    assert seen(scene, CANARY) != []
    runs("holdfast retired restore {} -n {}", (NAME, NODE), typed)
    assert page.read_text() == TWO
    scene.run("purge", NAME, "-n", NODE, "--yes").ok()
    shown = scene.run("purge", NAME, "-n", NODE, "--now", "--yes").ok()
    assert "what 1 earlier purge set aside" in shown.out and "is gone" in shown.out, shown
    assert seen(scene, CANARY) == []
    assert not scene.data(".checkpoints", NAME).exists() and not scene.data(".passports", NAME).exists()


def lose_journal(scene: DeployScene) -> None:
    scene.kill_agent()
    for file in (Path(scene.made.node(NODE)["dirs"]["state"]) / "agent").glob("agent.db*"):
        file.unlink()
    scene.start_agent()


def test_after_a_lost_journal_what_was_set_aside_and_checkpoints_can_be_used_n11_n12(scene: DeployScene) -> None:
    """Nothing was written down about them any more: they are found on the disk, and signed orders use them."""
    lost, back, dropped = "lost", "brought-back", "dropped"
    for name in (lost, back, dropped):
        scene.write(name, web(scene.image("hello:1")) + VOLUME)
    scene.run("apply", "--yes").ok()
    for name in (lost, back, dropped):
        (scene.data(name, "files") / "page").write_text(f"of {name}")
    scene.write(lost, web(scene.image("hello:2")) + VOLUME)
    for name in (back, dropped):
        scene.gone(name)
    scene.run("apply", "--yes", "--allow-removals", "2").ok()
    page = scene.data(lost, "files") / "page"
    page.write_text("written since")
    for name in (back, dropped):
        wait_until(lambda name=name: name in scene.run("retired").ok().out, "its data is reported")  # type: ignore[misc]
        scene.run("purge", name, "-n", NODE, "--yes").ok()

    lose_journal(scene)
    wait_until(lambda: bool(scene.findings("resync_needed")), "the node knows that its journal is gone")
    scene.run("resync", NODE, "--yes").ok()
    wait_until(lambda: {back, dropped} <= asides(scene).keys(), "what was set aside is listed")
    assert [asides(scene)[name] for name in (back, dropped)] == [None, None]
    scene.run("retired", "restore", back, "-n", NODE, "--yes").ok()
    assert (scene.data(back, "files") / "page").read_text() == f"of {back}"
    scene.run("purge", dropped, "-n", NODE, "--now", "--yes").ok()
    assert not {back, dropped} & asides(scene).keys() and seen(scene, f"of {dropped}") == []

    (copy,) = json.loads(scene.run("checkpoint", "list", lost, "--json").ok().out)["checkpoints"]
    assert copy["revision"] is None
    refused = scene.run("checkpoint", "restore", lost, copy["id"], "--yes")
    assert refused.code == 2 and "the revision that wrote checkpoint" in refused.err, refused
    command = refused.err.partition("holdfast ")[2].partition("`")[0]
    scene.run(*command.split(), "--yes").ok()
    one = scene.one(lost)
    assert page.read_text() == f"of {lost}" == scene.podman("exec", one.id, "cat", "/data/page")
    scene.write(back, web(scene.image("hello:2")) + VOLUME)
    scene.deploy(back).ok()
    assert scene.podman("exec", scene.one(back).id, "cat", "/data/page") == f"of {back}", "its passport came back, too"


def asides(scene: DeployScene) -> dict[str, Any]:
    """Until when, of everything that a purge set aside: of other tests of this lab, too."""
    rows = json.loads(scene.run("retired", "--json").ok().out)["retired"]
    return {row["name"]: row["until"] for row in rows if row["purged"]}


def seen(scene: DeployScene, text: str) -> list[str]:
    """Files of the node with this text: data, state, and the store of podman."""
    folders = {str(Path(path)) for path in scene.made.node(NODE)["dirs"].values()}
    store = scene.podman("info", "--format", "{{.Store.GraphRoot}}").strip()
    found = subprocess.run(["grep", "-rlaF", text, *sorted({*folders, store})], capture_output=True, text=True)
    return found.stdout.splitlines()
