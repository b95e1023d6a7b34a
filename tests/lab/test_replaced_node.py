"""A machine is lost for good and another one takes its place, in a real fleet: one command on the new machine."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fleets.lab import CALL_S, LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome
from tests.lab.test_moves import data, running

pytestmark = pytest.mark.lab

DATA = """\
node = "w1"
{more}
[[components]]
name = "web"
image = "{registry}/witness:1"
{inner}
[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"
"""
PLAIN = """\
node = "w1"

[[components]]
name = "web"
image = "{registry}/hello:1"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("replaced"), nodes="hub1:hub,w1:worker") as found:
        found.lab("fast").ok()
        yield found


def folders(made: LabUnderTest) -> list[Path]:
    """What is on the disk of w1."""
    return [Path(path) for path in made.node("w1")["dirs"].values()]


def lose(made: LabUnderTest, kept: Path) -> None:
    """The machine is gone for good; its disk is kept elsewhere, for the day when it comes back after all."""
    made.lab("kill", "w1").ok()
    kept.mkdir()
    for folder in folders(made):
        shutil.move(folder, kept / folder.name)
        folder.mkdir(mode=0o700)


def bring_back(made: LabUnderTest, kept: Path) -> None:
    for folder in folders(made):
        shutil.rmtree(folder)
        shutil.move(kept / folder.name, folder)


def state(made: LabUnderTest) -> Path:
    return next(folder for folder in folders(made) if folder.name == "state") / "agent"


def page(made: LabUnderTest, name: str) -> str:
    return (data(made, "w1", name) / "page").read_text()


def logged(made: LabUnderTest) -> str:
    return (made.dir / "logs" / "w1.agent.log").read_text()


def typed(made: LabUnderTest) -> Callable[[str], Outcome]:
    return lambda line: made.run(*line.split()[1:], "--yes")


def begun(made: LabUnderTest) -> str:
    """What each service wrote first is in its backup. The id of that of shop."""
    made.write("plain", PLAIN.format(registry=made.registry))
    made.write("vault", DATA.format(registry=made.registry, more='tier = "core"\n', inner=""))
    made.write("shop", DATA.format(registry=made.registry, more="", inner='secrets = ["word"]\n'))
    made.run("secret", "set", "word", "--generate").ok()
    made.run("apply", "--yes").ok()
    for name in ("vault", "shop"):
        (data(made, "w1", name) / "page").write_text("first")
        made.run("backup", name, "--wait", "--yes").ok()
        (data(made, "w1", name) / "page").write_text("lost")
    rows = made.run("backup", "list", "shop", "--json").ok().json["backups"]
    return str(max(rows, key=lambda row: row["sequence"])["id"])


def joined(made: LabUnderTest) -> Outcome:
    """One command on the new machine, and its agent."""
    address = ["--address", made.address("w1")]
    began = made.begin("agent", "join", "--replace", "w1", "--state-dir", str(state(made)), *address, "--yes")
    wait_until(lambda: '"joined": true' in read(state(made) / "identity.json"), "it joined")
    made.lab("start", "w1").ok()
    out, err = began.communicate(timeout=CALL_S)
    return Outcome(began.returncode, out, err)


def test_one_command_on_the_new_machine_restores_every_service_in_order(made: LabUnderTest, tmp_path: Path) -> None:
    backup = begun(made)
    alive = made.run("agent", "join", "--replace", "w1", "--state-dir", str(tmp_path / "other"), "--yes")
    assert alive.code == 5 and "w1 is alive" in alive.err and not (tmp_path / "other").exists()
    lose(made, tmp_path / "old")
    wait_until(lambda: "unhealthy" in made.run("node", "list").ok().out, "w1 is unhealthy")
    silent = made.run("migrate", "--all", "--from", "w1", "--to", "w1", "--yes")
    assert silent.code == 6 and "no other machine has taken its place" in silent.err
    done = joined(made).ok()
    assert "you lose at most" in done.out and "replaces the node's key" in done.out
    assert re.findall(r"move (\w+) +restore +done", done.err) == ["vault", "shop"]
    assert [page(made, name) for name in ("vault", "shop")] == ["first", "first"]
    assert all(running(made, name) == ["w1"] for name in ("vault", "shop", "plain")), "shop opened its secret"
    assert made.run("plan").ok().out.startswith("No changes"), "sealed files followed"
    runs("holdfast migrate --all --from {} --to {}", ("w1", "w1"), typed(made))
    (data(made, "w1", "shop") / "page").write_text("worse")
    runs("holdfast migrate {} --to {} --force --backup {}", ("shop", "w1", backup), typed(made))
    assert page(made, "shop") == "first" and running(made, "shop") == ["w1"]


def containers(made: LabUnderTest) -> set[str]:
    """Services with a container on w1, running or not."""
    label = '{{index .Labels "holdfast.service"}}'
    return set(made.enter("w1", "podman", "ps", "--all", "--format", label).ok().out.split())


def test_the_old_machine_is_refused_and_runs_none_of_its_services(made: LabUnderTest, tmp_path: Path) -> None:
    """After the test above. The new machine is switched off meanwhile: it has the same address."""
    old = next(tmp_path.parent.glob("test_one_command*/old"))
    lose(made, tmp_path / "new")
    bring_back(made, old)
    made.lab("start", "w1").ok()
    wait_until(lambda: '"replaced"' in logged(made), lambda: logged(made)[-2000:])
    wait_until(lambda: not {"vault", "shop"} & containers(made), lambda: str(containers(made)))
    assert [page(made, name) for name in ("vault", "shop")] == ["lost", "lost"], "its data stays"
    wait_until(lambda: "unhealthy" in made.run("node", "list").ok().out, "its key is refused")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
