"""The two ways of a move in a real fleet: directly between nodes that reach each other, else through the hub."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ports.move_lines import MOVE_PORT
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.waiting import wait_until
from tests.lab.test_moves import data, deployed, running

pytestmark = pytest.mark.lab

SIZE = 20_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("ways"), nodes="hub1:hub,w1:worker,w2:worker") as found:
        found.lab("fast").ok()
        yield found


def listening(made: LabUnderTest, node: str) -> list[str]:
    """Addresses on which this node takes calls of a move."""
    shown = made.enter(node, "ss", "-Hltn", f"sport = :{MOVE_PORT}").ok().out
    return [line.split()[3].rpartition(":")[0] for line in shown.splitlines()]


def spool(made: LabUnderTest, node: str) -> list[Path]:
    return [path for path in (Path(made.node(node)["dirs"]["state"]) / "agent" / "moves").rglob("*") if path.is_file()]


def mailbox(made: LabUnderTest) -> int:
    """Packs that the hub has now."""
    return len(list((Path(made.node("hub1")["dirs"]["state"]) / "hub" / "moves").rglob("packs/*")))


def moved(made: LabUnderTest, name: str, target: str) -> tuple[str, list[list[str]], int]:
    """The output of the move; where the target listened meanwhile, and the most that the hub had."""
    move = made.begin("migrate", name, "--to", target, "--yes", "--verbose")
    doors: list[list[str]] = []
    most = 0
    try:
        while move.poll() is None:
            doors.append(listening(made, target))
            most = max(most, mailbox(made))
    finally:
        out, err = move.communicate()
    assert move.returncode == 0, out + err
    return out + err, doors, most


def test_nodes_that_reach_each_other_hand_over_directly(made: LabUnderTest) -> None:
    deployed(made, "notes")
    content = os.urandom(SIZE)
    (data(made, "w1", "notes") / "page").write_bytes(content)
    said, doors, most = moved(made, "notes", "w2")
    assert "copy directly" in said and "hand over directly" in said and "through the hub" not in said, said
    assert (data(made, "w2", "notes") / "page").read_bytes() == content
    assert [made.address("w2")] in doors and all(one in ([], [made.address("w2")]) for one in doors), doors
    assert most == 0, "the hub had packs"
    wait_until(
        lambda: not listening(made, "w2") and not spool(made, "w2"), "the door is closed and its directory empty"
    )
    assert listening(made, "w1") == [] and running(made, "notes") == ["w2"]


def test_nodes_that_do_not_hand_over_through_the_hub(made: LabUnderTest) -> None:
    deployed(made, "diary")
    content = os.urandom(SIZE)
    (data(made, "w1", "diary") / "page").write_bytes(content)
    made.lab("cut", "w1", "w2").ok()
    try:
        said, _, most = moved(made, "diary", "w2")
    finally:
        made.lab("heal").ok()
    assert "copy through the hub" in said and "directly" not in said, said
    assert (data(made, "w2", "diary") / "page").read_bytes() == content
    assert most > 0 and running(made, "diary") == ["w2"]
