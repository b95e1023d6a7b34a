"""A PostgreSQL with writes going on is backed up by its own dump, wiped by a signed order, and restored (M-91)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleets import postgres
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.waiting import wait_until

pytestmark = pytest.mark.lab

NAME = "shop"
SERVICE = """
[snapshot]
method = "postgres"
component = "db"

[[components]]
name = "db"
image = "{image}"
health = {{ type = "tcp", port = 5432 }}

[[components.volumes]]
name = "base"
path = "/data"
protect = "backup"

[[components]]
name = "writer"
image = "{image}"
stop_timeout = "1s"
cmd = ["sh", "-c", '''{writer}''']

[[components.volumes]]
name = "acks"
path = "/acks"
protect = "none"
owner = "971:971"
"""
# One transaction at a time; a number is noted once the database has acknowledged it.
WRITER = """
export PGHOST=db PGUSER=postgres
life=$(cat /proc/sys/kernel/random/uuid); n=0
until psql -qc "create table if not exists written (life text, n int)"; do sleep 0.2; done
while :; do n=$((n + 1)); psql -qc "insert into written values ('$life', $n)" && echo "$life|$n" >> /acks/log; done
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("databases"), nodes="hub1:hub,w1:worker") as found:
        found.lab("fast").ok()
        found.lab("image", "build", str(postgres.folder()), "--name", postgres.IMAGE).ok()
        found.write(NAME, SERVICE.format(image=f"{found.registry}/{postgres.IMAGE}", writer=WRITER))
        found.run("deploy", NAME, "--yes").ok()
        yield found


def data(made: LabUnderTest) -> Path:
    return Path(made.node("w1")["dirs"]["data"]) / NAME


def acknowledged(made: LabUnderTest) -> set[str]:
    log = data(made) / "acks" / "log"
    return set(log.read_text().splitlines()) if log.exists() else set()


def podman(made: LabUnderTest, *words: str) -> str:
    return made.enter("w1", "podman", *words).ok().out


def written(made: LabUnderTest) -> set[str]:
    (name,) = [one for one in podman(made, "ps", "--format", "{{.Names}}").split() if f"-{NAME}_db-" in one]
    asked = ["exec", name, "psql", "-U", "postgres", "-Atc", "select life, n from written"]
    return set(podman(made, *asked).splitlines())


def back_up(made: LabUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.run("backup", NAME, "--wait", "--json").ok().out)
    return found


def test_every_transaction_acknowledged_before_the_backup_is_there_after_a_wipe_and_a_restore(
    made: LabUnderTest,
) -> None:
    wait_until(lambda: len(acknowledged(made)) >= 20, "transactions are written")
    before = acknowledged(made)
    done = back_up(made)
    assert done["files"] == 1, "the dump, and no file of the database"
    wait_until(lambda: len(acknowledged(made)) > len(before) + 5, "it goes on with writes")
    made.run("undeploy", NAME, "--yes").ok()
    made.run("purge", NAME, "-n", "w1", "--now", "--yes").ok()
    assert not data(made).exists()
    refused = made.run("restore", NAME, "--yes")
    assert refused.code == 1 and f"holdfast deploy {NAME}" in refused.err, refused
    made.run("deploy", NAME, "--yes").ok()
    wait_until(lambda: bool(acknowledged(made)), "an empty database is written to")
    made.run("restore", NAME, "--yes").ok()
    found = written(made)
    assert before <= found, f"{len(before - found)} of {len(before)} are lost"
    listed = podman(made, "ps", "--all", "--format", "{{.Names}}").split()
    assert sorted(name.split("_")[1].split("-")[0] for name in listed if NAME in name) == ["db", "writer"], listed


def test_a_restore_whose_agent_is_killed_while_the_dump_is_loaded_goes_on(made: LabUnderTest) -> None:
    wait_until(lambda: len(acknowledged(made)) >= 5, "transactions are written")
    before = acknowledged(made) & written(made)
    back_up(made)
    waits = made.begin("restore", NAME, "--yes")
    wait_until(lambda: loading(made), "the container beside the service is there")
    made.lab("kill", "w1", "--agent").ok()
    assert loading(made), "it outlives the agent"
    made.lab("start", "w1").ok()
    out, err = waits.communicate(timeout=120)
    assert waits.returncode == 0, (out, err)
    assert before <= written(made) and not loading(made)


def loading(made: LabUnderTest) -> list[str]:
    names = podman(made, "ps", "--all", "--format", "{{.Names}}").split()
    return [name for name in names if name.endswith(f"-{NAME}_load")]
