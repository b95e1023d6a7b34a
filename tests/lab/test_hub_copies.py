"""The hub's machine is lost with its core services: hub and data come back from a second tier (issue 16 §5)."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.fleets.counts import SOAK
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.seaweed import MINE, Seaweed, seaweed
from tests.fleets.waiting import wait_until
from tests.lab.product import fingerprints
from tests.lab.test_backup_targets import target
from tests.lab.test_backups import SERVICE

pytestmark = pytest.mark.lab

CORE, OTHER, NAME = "book", "web", "hub.hub1"


class Stage(Struct, frozen=True):
    lab: LabUnderTest
    server: Seaweed
    folder: Path

    @property
    def state(self) -> Path:
        return Path(self.lab.node("hub1")["dirs"]["state"])

    @property
    def hub_state(self) -> tuple[str, str]:
        return ("--state-dir", str(self.state / "hub"))

    def listed(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lab.run("backup", "list", "--json").ok().out)
        return found

    def copy(self) -> dict[str, Any]:
        """What is reported of the file of the hub; {} before anything is."""
        return next(iter(self.listed()["hub"]), {})

    def data(self, node: str) -> Path:
        return Path(self.lab.node(node)["dirs"]["data"]) / CORE / "files"

    def running(self, node: str) -> list[str]:
        shown = self.lab.enter(node, "podman", "ps", "--format", "{{.ID}} {{.StartedAt}}").ok().out
        return sorted(shown.splitlines())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("copies")
    with (
        lab(folder / "lab", nodes="hub1:hub+worker,w1:worker") as made,
        seaweed(folder / "weed", made.registry.partition(":")[0]) as server,
    ):
        made.lab("fast").ok()
        file = Path(made.fleet) / "fleet.toml"
        cold = target(
            "cold", type="s3", durable_id="cold-1", location=f"{server.endpoint}/backups/fleet", nodes=["hub1"],
            secret="cold-keys", role="offsite",
        )  # fmt: skip
        file.write_text(file.read_text() + cold)
        keys = f"AWS_ACCESS_KEY_ID={MINE.access_key_id}\nAWS_SECRET_ACCESS_KEY={MINE.secret_access_key}\n"
        (folder / "keys").write_text(keys)
        made.run("secret", "set", "cold-keys", "--file", str(folder / "keys")).ok()
        core = 'tier = "core"\n' + SERVICE.format(image=f"{made.registry}/witness:1")
        made.write(CORE, core)
        made.write(OTHER, f'node = "w1"\n{SERVICE.format(image=f"{made.registry}/hello:1")}')
        assert "no copy of its state is kept elsewhere" in made.run("status").ok().out
        made.run("apply", "--yes").ok()
        yield Stage(made, server, folder)


def test_the_file_of_the_hub_is_kept_on_targets_of_its_node_without_any_command(stage: Stage) -> None:
    made = stage.lab
    wait_until(lambda: bool(stage.copy().get("elsewhere")), "the node of the hub has stored its file")
    first = stage.copy()
    assert (first["service"], first["node"], first["targets"]) == (NAME, "hub1", ["cold"]), "and not at the hub itself"
    assert not (stage.state / "hub" / "backups").exists() or NAME not in {
        path.name for path in (stage.state / "hub" / "backups").glob("*/*")
    }
    said = made.run("status").ok().out
    assert f"The hub: {NAME} made" in said and "on cold" in said
    assert NAME in made.run("backup", "list").ok().out
    made.run("backup", NAME, "--wait").ok()
    wait_until(lambda: stage.copy()["id"] != first["id"], "the order made another one")
    refused = made.run("backup", "show", NAME, "--json").refused(2, "not_at_hub")
    assert "hub fetch" in refused["remedy"]


def test_the_machine_of_the_hub_is_gone_and_hub_and_core_data_come_back_from_the_second_tier(stage: Stage) -> None:
    made = stage.lab
    (stage.data("hub1") / "page").write_text("of the core service")
    made.run("backup", CORE, "--wait").ok()
    wait_until(lambda: "cold" in _targets(stage), "the second tier has the data of the core service")
    lost, started = fingerprints(stage.data("hub1"))["page"], stage.running("w1")
    head, joins = made.run("history", "--json").ok().json, _joins(made)
    made.lab("kill", "hub").ok()
    made.lab("kill", "hub1", "--agent").ok()
    made.enter("hub1", "podman", "rm", "--force", "--all", "--time", "0").ok()
    for name in ("hub", "agent"):
        shutil.rmtree(stage.state / name)
    shutil.rmtree(stage.data("hub1"))
    # another machine: the fleet directory, the operator's keys, and the second tier
    file = stage.folder / "hub.age"
    made.run("hub", "fetch", "cold", "--to", str(file)).ok()
    made.run("hub", "restore", str(file), *stage.hub_state, "--yes").ok()
    copied = made.run("import", "backups", "cold", *stage.hub_state, "--json").ok().json
    assert copied["backups"] >= 1 and not copied["damaged"]
    made.lab("start", "hub").ok()
    wait_until(lambda: _health(made) == {"hub1": False, "w1": True}, "w1 follows the restored hub, hub1 is gone")
    assert made.run("history", "--json").ok().json == head
    file = Path(made.fleet) / "services" / f"{CORE}.toml"
    file.write_text(file.read_text().replace('tier = "core"', 'tier = "worker"'))
    made.run("apply", "--yes", "--detach").ok()
    made.run("migrate", "--all", "--from", "hub1", "--to", "w1", "--yes").ok()
    assert fingerprints(stage.data("w1"))["page"] == lost
    assert "No changes" in made.run("plan").ok().out
    assert set(started) <= set(stage.running("w1")), "a container of another node restarted"
    assert _joins(made) == joins, "a node joined again"


def _joins(made: LabUnderTest) -> int:
    return made.run("audit", "--json", "-n", "1000").ok().out.count('"join"')


def _targets(stage: Stage) -> set[str]:
    rows = [row for row in stage.listed()["backups"] if row["service"] == CORE]
    return {one["target"] for one in rows[-1]["copies"]} if rows else set()


def _health(made: LabUnderTest) -> dict[str, bool]:
    return {one["name"]: one["status"] == "healthy" for one in made.run("node", "list", "--json").ok().json["nodes"]}


if not SOAK:  # `make test` runs this in docs/guides/disaster.md, with a directory as the target
    del test_the_file_of_the_hub_is_kept_on_targets_of_its_node_without_any_command
    del test_the_machine_of_the_hub_is_gone_and_hub_and_core_data_come_back_from_the_second_tier
