"""Moves in a real fleet: a service goes to another node with its data, and visitors notice a short pause only."""

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome
from tests.lab.test_backup_targets import broken_below

pytestmark = pytest.mark.lab

SERVICE = """
[[components]]
name = "web"
image = "{image}"
{more}
[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("moves"), nodes="hub1:hub,w1:worker,w2:worker") as found:
        found.lab("fast").ok()
        yield found


def write(made: LabUnderTest, name: str, node: str, more: str = "") -> None:
    made.write(name, f'node = "{node}"\n' + SERVICE.format(image=f"{made.registry}/hello:1", more=more))


def deployed(made: LabUnderTest, name: str, node: str = "w1") -> None:
    write(made, name, node)
    made.run("deploy", name, "--yes").ok()


def data(made: LabUnderTest, node: str, name: str) -> Path:
    return Path(made.node(node)["dirs"]["data"]) / name / "files"


def running(made: LabUnderTest, name: str) -> list[str]:
    rows = json.loads(made.run("ps", "--json").ok().out)["services"]
    return [row["node"] for row in rows if row["name"] == name and row["status"] == "running"]


def typed(made: LabUnderTest) -> Callable[[str], Outcome]:
    return lambda line: made.run(*shlex.split(line.removeprefix("holdfast ")), "--yes")


def test_a_service_moves_with_its_data(made: LabUnderTest) -> None:
    deployed(made, "notes")
    (data(made, "w1", "notes") / "page").write_text("first")
    runs("holdfast migrate {} --to {}", ("notes", "w2"), typed(made))
    assert (data(made, "w2", "notes") / "page").read_text() == "first"
    assert running(made, "notes") == ["w2"]
    assert (data(made, "w1", "notes") / "page").read_text() == "first", "the source keeps its copy"
    assert made.run("plan").ok().out.startswith("No changes"), "the pin in its file followed"
    runs("holdfast migrate {} --to NODE", ("notes",), typed(made), NODE="w2")  # it is there: nothing happens


def test_backups_of_the_node_before_stay_until_this_one_has_proven_its_own_i32(made: LabUnderTest) -> None:
    """Then they go by the rule, with their packs: the real hub judges each deletion, too."""
    file = made.fleet / "fleet.toml"
    file.write_text(file.read_text() + "\n[backups]\nretain = 1\n")
    made.run("apply", "--yes").ok()
    deployed(made, "log")

    def back_up(node: str) -> None:
        (data(made, node, "log") / "page").write_bytes(os.urandom(1 << 20))
        made.run("backup", "log", "--wait").ok()

    def stored() -> list[tuple[str, int]]:
        found = json.loads(made.run("backup", "list", "log", "--json").ok().out)["backups"]
        return [(one["node"], one["epoch"]) for one in sorted(found, key=lambda one: (one["epoch"], one["sequence"]))]

    for _ in range(3):
        back_up("w1")
    made.run("migrate", "log", "--to", "w2", "--yes").ok()
    for _ in range(2):
        back_up("w2")
    found = stored()
    assert {("w1", 1), ("w2", 2)} == set(found) and found[-1] == ("w2", 2)
    assert json.loads(made.run("backup", "show", "log", "--json").ok().out)["node"] == "w2", "the newest"
    made.run("drill", "log").ok()
    back_up("w2")
    wait_until(lambda: set(stored()) == {("w2", 2)}, lambda: str(stored()))
    top = Path(made.node("hub1")["dirs"]["state"]) / "hub" / "backups"
    (above,) = top.glob("*/log")
    wait_until(lambda: not list(above.glob("g1/packs/*")), "nothing of the node before is left but its key")
    assert broken_below(above) == set() and list(above.glob("g2/packs/*"))
    made.run("backup", "verify", "log").ok()


def test_the_last_move_is_taken_back(made: LabUnderTest) -> None:
    deployed(made, "diary")
    (data(made, "w1", "diary") / "page").write_text("first")
    runs("holdfast migrate SVC --to NODE", (), typed(made), SVC="diary", NODE="w2")
    (data(made, "w2", "diary") / "page").write_text("second")
    runs("holdfast migrate SVC --abort", (), typed(made), SVC="diary")
    assert (data(made, "w1", "diary") / "page").read_text() == "second", "what was written since comes back too"
    assert running(made, "diary") == ["w1"]
    refused = made.run("migrate", "diary", "--abort", "--yes", "--json")
    assert refused.code == 5 and json.loads(refused.err)["code"] == "not_moving"


def test_data_that_is_in_the_way_is_refused_and_set_aside_by_force(made: LabUnderTest) -> None:
    """M-102, M-109."""
    deployed(made, "atlas")
    made.run("migrate", "atlas", "--to", "w2", "--yes").ok()
    (data(made, "w2", "atlas") / "page").write_text("newer")
    refused = made.run("migrate", "atlas", "--to", "w1", "--yes")
    assert refused.code == 5 and "has data of atlas already" in refused.err and "--force" in refused.err
    assert running(made, "atlas") == ["w2"]
    runs("holdfast migrate {} --to {} --force", ("atlas", "w1"), typed(made))
    assert (data(made, "w1", "atlas") / "page").read_text() == "newer"
    runs("holdfast migrate {} --abort --detach", ("atlas",), typed(made))
    made.run("migrate", "atlas", "--to", "w2", "--yes").ok()  # follows it
    assert running(made, "atlas") == ["w2"]
    runs("holdfast stop {}", ("atlas",), typed(made))
    runs("holdfast migrate {} --to NODE --force", ("atlas",), typed(made), NODE="w1")
    assert running(made, "atlas") == [], "what an order stopped stays stopped"
    assert (data(made, "w1", "atlas") / "page").read_text() == "newer"
    runs("holdfast migrate {} --abort", ("atlas",), typed(made))


def test_every_service_of_a_node_moves_with_its_secrets(made: LabUnderTest) -> None:
    """M-111. The secret is sealed to w2 only; the operator's identity opens it for w1, and the file follows."""
    write(made, "safe", "w2", 'secrets = ["key"]\n')
    made.run("secret", "set", "key", "--generate").ok()
    made.run("deploy", "safe", "--yes").ok()
    (data(made, "w2", "safe") / "page").write_text("sealed")
    runs("holdfast migrate --all --from NODE --to NODE", (), moving_all(made))
    assert (data(made, "w1", "safe") / "page").read_text() == "sealed"
    assert not any(running(made, name) == ["w2"] for name in ("notes", "diary", "atlas", "safe"))
    assert running(made, "safe") == ["w1"], "it opened its secret"
    assert made.run("plan").ok().out.startswith("No changes"), "pins and sealed files followed"


def test_a_node_is_drained_with_its_data(made: LabUnderTest) -> None:
    """All services are on w1 by the test before."""
    drained = json.loads(made.run("node", "drain", "w1", "--with-data", "--force", "--yes", "--json").ok().out)
    assert {row["service"] for row in drained["moved"]} == {"notes", "diary", "atlas", "log", "safe"}
    assert running(made, "safe") == ["w2"] and (data(made, "w2", "safe") / "page").read_text() == "sealed"
    made.run("node", "drain", "w1", "--undo", "--yes").ok()


def moving_all(made: LabUnderTest) -> Callable[[str], Outcome]:
    return lambda line: typed(made)(line.replace("--from NODE", "--from w2").replace("--to NODE", "--to w1 --force"))
