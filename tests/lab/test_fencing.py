"""Copies that a moved service leaves behind, in a real fleet: named, kept, never started, purged by a signed order."""

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
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


class Snapshot:
    """Of what the agent of a machine keeps, while it is off."""

    def __init__(self, made: LabUnderTest, node: str, folder: Path) -> None:
        self._made, self._node, self._kept = made, node, folder / node
        self._state = Path(made.node(node)["dirs"]["state"]) / "agent"
        made.lab("kill", node).ok()
        shutil.copytree(self._state, self._kept)
        made.lab("start", node).ok()
        wait_until(lambda: status_of(made, node) == "healthy", f"{node} is back")

    def put_back(self, *lost: Path) -> None:
        """`lost`: data on its disk that is newer than the snapshot."""
        self._made.lab("kill", self._node).ok()
        shutil.rmtree(self._state)
        shutil.copytree(self._kept, self._state)
        for path in lost:
            shutil.rmtree(path)
        self._made.lab("start", self._node).ok()


def status_of(made: LabUnderTest, node: str) -> str:
    found = json.loads(made.run("node", "list", "--json").ok().out)["nodes"]
    return str(next(one["status"] for one in found if one["name"] == node))


def told(made: LabUnderTest, code: str, address: str = "") -> str:
    """The remedy of a finding."""
    found = json.loads(made.run("status", "--json").out)["findings"]
    return next((one["remedy"] for one in found if one["code"] == code and address in one["address"]), "")


def is_superseded(made: LabUnderTest) -> bool:
    return bool(copies(made, "ledger").get("w1", {}).get("state") == "superseded")


def test_a_machine_that_is_put_back_to_before_a_move_does_not_run_what_it_handed_over(
    made: LabUnderTest, tmp_path: Path
) -> None:
    deployed(made, "ledger")
    (data(made, "w1", "ledger") / "page").write_text("first")
    source, target = Snapshot(made, "w1", tmp_path), Snapshot(made, "w2", tmp_path)
    made.run("migrate", "ledger", "--to", "w2", "--yes").ok()
    (data(made, "w2", "ledger") / "page").write_text("second")
    source.put_back()
    wait_until(lambda: told(made, "resync_needed", "node.w1") and is_superseded(made), "w1 is back, and asked")
    assert running(made, "ledger") == ["w2"]
    assert "ledger" not in made.inside("w1", "podman", "ps", "--all", "--format", "{{.Names}}").ok().out
    target.put_back(data(made, "w2", "ledger").parent)
    wait_until(lambda: "retired restore ledger -n w1" in told(made, "move_waits"), "w2 says that its data is gone")
    assert running(made, "ledger") == []
    typed = partial(runs, "holdfast retired restore {} -n {}", ("ledger", "w1"), repeated=True)
    # Not waited for: w2 has a container that its journal does not know, and which it reports as an orphan.
    typed(lambda line: made.run(*line.split()[1:], "--yes", "--detach"))
    wait_until(lambda: running(made, "ledger") == ["w1"], "it goes on with the copy of w1")
    assert (data(made, "w1", "ledger") / "page").read_text() == "first"
    made.run("undeploy", "ledger", "--yes").ok()
    for node in ("w1", "w2"):  # put back, they run no order: the next tests have some
        made.run("resync", node, "--yes").ok()


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


def test_a_node_that_returns_without_a_hub_stops_its_copy_as_soon_as_it_hears_of_the_newer_one(
    made: LabUnderTest,
) -> None:
    """ADR 0053: the hub is the only one who could say it, so until then both run, and the older one is unconfirmed."""
    deployed(made, "paper")
    (data(made, "w1", "paper") / "page").write_text("first")
    made.run("backup", "paper", "--wait", "--yes").ok()
    made.lab("kill", "w1").ok()
    wait_until(lambda: status_of(made, "w1") == "unhealthy", "w1 is unhealthy")
    made.run("migrate", "paper", "--to", "w2", "--yes").ok()
    made.lab("kill", "hub").ok()
    made.lab("start", "w1").ok()

    def runs_on_w1() -> bool:
        return "paper" in made.inside("w1", "podman", "ps", "--format", "{{.Names}}").out

    wait_until(runs_on_w1, "it starts without a hub")
    (data(made, "w1", "paper") / "page").write_text("stale")
    made.lab("start", "hub").ok()
    wait_until(lambda: copies(made, "paper").get("w1", {}).get("state") == "fenced", "w1 reports its copy")
    assert not runs_on_w1() and running(made, "paper") == ["w2"]
    assert (data(made, "w1", "paper") / "page").read_text() == "stale", "what it wrote meanwhile is kept"
    assert (data(made, "w2", "paper") / "page").read_text() == "first"
    wait_until(lambda: not told(made, "unconfirmed"), "the hub confirmed it")
