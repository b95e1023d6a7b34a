"""A PostgreSQL with writes going on is backed up by its own dump, proven by drills, wiped by a signed order, and
restored (M-91, H-60)."""

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
{more}

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
        write(found)
        found.run("deploy", NAME, "--yes").ok()
        yield found


def write(made: LabUnderTest, more: str = "") -> None:
    made.write(NAME, SERVICE.format(image=f"{made.registry}/{postgres.IMAGE}", writer=WRITER, more=more))


def data(made: LabUnderTest) -> Path:
    return Path(made.node("w1")["dirs"]["data"]) / NAME


def acknowledged(made: LabUnderTest) -> set[str]:
    log = data(made) / "acks" / "log"
    return set(log.read_text().splitlines()) if log.exists() else set()


def podman(made: LabUnderTest, *words: str) -> str:
    return made.enter("w1", "podman", *words).ok().out


def serving(made: LabUnderTest) -> str:
    (name,) = [one for one in podman(made, "ps", "--format", "{{.Names}}").split() if f"-{NAME}_db-" in one]
    return name


def sql(made: LabUnderTest, text: str) -> list[str]:
    asked = ["exec", serving(made), "psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-Atc", text]
    return podman(made, *asked).splitlines()


def written(made: LabUnderTest) -> set[str]:
    return set(sql(made, "select life, n from written"))


def back_up(made: LabUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.run("backup", NAME, "--wait", "--json").ok().out)
    return found


def drill(made: LabUnderTest) -> tuple[int, dict[str, Any]]:
    done = made.run("drill", NAME, "--json")
    return done.code, json.loads(done.out)


def beside(made: LabUnderTest) -> list[str]:
    """What drills and restores make, by name."""
    names = podman(made, "ps", "--all", "--format", "{{.Names}}").split()
    names += podman(made, "network", "ls", "--format", "{{.Name}}").split()
    scratch = data(made).parent / ".drills"
    return [one for one in names if "_drill-" in one or one.endswith("_load")] + [str(one) for one in scratch.glob("*")]


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


# A check that reads another table is a usual reason why a dump cannot be loaded: pg_dump writes tables by their names.
CANNOT_BE_LOADED = """
create table b (n int);
create function in_b(int) returns bool language sql as 'select exists (select 1 from public.b where n = $1)';
create table a (n int check (in_b(n)));
insert into b values (1);
insert into a values (1);
"""


def test_a_drill_loads_the_dump_and_is_red_for_one_that_does_not_load(made: LabUnderTest) -> None:
    """That no other component runs before: tests/scenarios/test_drills_of_dumps.py."""
    wait_until(lambda: len(acknowledged(made)) >= 5, "transactions are written")
    good = back_up(made)["id"]
    code, result = drill(made)
    assert (code, result["verdict"], result["backup"]) == (0, "verified", good), result
    assert "the dump was loaded in db by the service's own command" in result["checks"]
    assert [one for one in result["checks"] if one.startswith("db is healthy: tcp 5432")], result
    sql(made, CANNOT_BE_LOADED)
    try:
        bad = back_up(made)["id"]
        code, result = drill(made)
    finally:
        sql(made, "drop table a; drop function in_b; drop table b")
    assert (code, result["verdict"], result["backup"]) == (1, "failed", bad), result
    assert "the command that loads the dump of shop ended with" in result["reason"]
    assert 'violates check constraint "a_n_check"' in result["reason"]
    assert [line for line in result["lines"] if line.startswith("db: ")], "the words of the server too"
    assert beside(made) == []


def test_the_container_that_loads_a_dump_reaches_nothing_in_a_drill_and_in_a_restore(made: LabUnderTest) -> None:
    """Not the hub, the registry, the database that serves, nor the node. The first ones answer a command in the serving
    container, so that the question is a fair one."""
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}} {{end}}"
    own, gateway = podman(made, "inspect", "--format", form, serving(made)).split()
    hub, node = made.node("hub1")["address"], made.node("w1")["address"]
    places = [f"{hub} 9555", made.registry.replace(":", " "), f"{own} 5432", f"{node} 443", f"{gateway} 53"]
    tries = [f"nc -w 2 {place} -e /bin/true" for place in places]
    for asked in tries[:3]:
        podman(made, "exec", serving(made), "sh", "-c", asked)
    script = "".join(f"{asked} && exit 7; " for asked in tries)
    loads = f"{script}exec psql -qX -v ON_ERROR_STOP=1 -o /dev/null -U postgres -d postgres"
    write(made, f"restore = '''sh -c \"{loads}\"'''")
    made.run("apply", "--yes").ok()
    known = written(made)
    back_up(made)
    code, result = drill(made)
    assert (code, result["verdict"]) == (0, "verified"), result
    made.run("restore", NAME, "--yes").ok()
    assert known <= written(made) and beside(made) == []
    write(made)
    made.run("apply", "--yes").ok()
