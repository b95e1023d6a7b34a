"""Copies that a moved service leaves behind, in a real fleet: named, kept, never started, purged by a signed order."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.test_moves import data, deployed, running

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("fencing"), nodes="hub1:hub,w1:worker,w2:worker") as found:
        found.lab("fast").ok()
        yield found


def copies(made: LabUnderTest, service: str) -> dict[str, Any]:
    found = json.loads(made.run("status", "--json").ok().out)["copies"]
    return {one["node"]: one for one in found if one["service"] == service}


def test_a_superseded_copy_is_named_and_purged_while_the_service_runs_elsewhere(made: LabUnderTest) -> None:
    deployed(made, "notes")
    (data(made, "w1", "notes") / "page").write_text("first")
    made.run("migrate", "notes", "--to", "w2", "--yes").ok()
    wait_until(lambda: copies(made, "notes").get("w1", {}).get("state") == "superseded", "w1 reports its copy")
    left = copies(made, "notes")
    assert (left["w1"]["epoch"], left["w1"]["target"], len(left["w1"]["digest"])) == (1, "w2", 64)
    assert (left["w2"]["epoch"], left["w2"]["state"]) == (2, "running")
    assert "notes on w1 (superseded, epoch 1; runs on w2)" in made.run("status").ok().out
    assert made.run("purge", "notes", "-n", "w2", "--yes").code == 3, "it is applied there"
    assert "(superseded; the service runs on w2)" in made.run("purge", "notes", "-n", "w1", "--yes").ok().out
    assert not data(made, "w1", "notes").exists()
    made.run("retired", "restore", "notes", "-n", "w1", "--yes").ok()
    assert (data(made, "w1", "notes") / "page").read_text() == "first"
    made.run("purge", "notes", "-n", "w1", "--now", "--yes").ok()
    assert not data(made, "w1", "notes").exists() and "w1" not in copies(made, "notes")
    assert running(made, "notes") == ["w2"] and (data(made, "w2", "notes") / "page").read_text() == "first"


def test_a_service_goes_on_with_the_copy_that_its_former_node_kept(made: LabUnderTest) -> None:
    deployed(made, "draft")
    (data(made, "w1", "draft") / "page").write_text("first")
    made.run("migrate", "draft", "--to", "w2", "--yes").ok()
    (data(made, "w2", "draft") / "page").write_text("worse")
    wait_until(lambda: copies(made, "draft").get("w1", {}).get("state") == "superseded", "w1 reports its copy")
    refused = made.run("retired", "restore", "draft", "-n", "w1", "--yes")
    assert refused.code == 3 and "runs on w2 with newer data" in refused.err
    runs("holdfast stop {}", ("draft",), lambda line: made.run(*line.split()[1:]))
    made.run("retired", "restore", "draft", "-n", "w1", "--yes").ok()
    assert running(made, "draft") == ["w1"] and (data(made, "w1", "draft") / "page").read_text() == "first"
    wait_until(lambda: copies(made, "draft").get("w2", {}).get("state") == "fenced", "w2 reports its copy")
    assert (data(made, "w2", "draft") / "page").read_text() == "worse", "nothing is lost"
    made.run("undeploy", "draft", "--yes").ok()
    made.gone("draft")
    wait_until(lambda: copies(made, "draft").get("w1", {}).get("state") == "retired", "w1 reports its data")
    made.run("retired", "restore", "draft", "-n", "w1", "--yes").ok()
    assert running(made, "draft") == ["w1"] and (data(made, "w1", "draft") / "page").read_text() == "first"
    made.run("undeploy", "draft", "--yes").ok()


def test_a_node_that_returns_keeps_its_copy_and_never_starts_it(made: LabUnderTest) -> None:
    """W11: killed for good, the service goes on with a backup elsewhere, and the node comes back after all."""
    deployed(made, "diary")
    (data(made, "w1", "diary") / "page").write_text("first")
    made.run("backup", "diary", "--wait", "--yes").ok()
    made.lab("kill", "w1").ok()
    wait_until(lambda: "unhealthy" in made.run("node", "list").ok().out, "w1 is unhealthy")
    made.run("migrate", "diary", "--to", "w2", "--yes").ok()
    assert running(made, "diary") == ["w2"] and (data(made, "w2", "diary") / "page").read_text() == "first"
    (data(made, "w2", "diary") / "page").write_text("newer")
    made.lab("start", "w1").ok()
    wait_until(lambda: copies(made, "diary").get("w1", {}).get("state") == "fenced", "w1 reports its copy")
    left = copies(made, "diary")
    assert (left["w1"]["epoch"], left["w1"]["target"], left["w2"]["epoch"]) == (1, "w2", 2)
    assert running(made, "diary") == ["w2"]
    assert (data(made, "w1", "diary") / "page").read_text() == "first", "its data is kept"
    assert "diary" not in made.inside("w1", "podman", "ps", "--all", "--format", "{{.Names}}").ok().out
    made.run("purge", "diary", "-n", "w1", "--now", "--yes").ok()
    assert not data(made, "w1", "diary").exists() and (data(made, "w2", "diary") / "page").read_text() == "newer"


def test_after_a_boot_without_a_hub_a_service_with_data_waits_and_is_unconfirmed(made: LabUnderTest) -> None:
    deployed(made, "book")
    made.lab("kill", "w1").ok()
    made.lab("kill", "hub").ok()
    made.lab("start", "w1").ok()

    def is_up() -> bool:
        return "book" in made.inside("w1", "podman", "ps", "--format", "{{.Names}}").out

    wait_until(is_up, "it starts without a hub")
    told = (made.dir / "logs" / "w1.agent.log").read_text()
    assert '"unconfirmed"' in told
    made.lab("start", "hub").ok()
    wait_until(lambda: running(made, "book") == ["w1"], "w1 reports it")

    def findings() -> set[str]:
        return {one["code"] for one in json.loads(made.run("status", "--json").out)["findings"]}

    wait_until(lambda: "unconfirmed" not in findings(), "the hub confirmed it")
