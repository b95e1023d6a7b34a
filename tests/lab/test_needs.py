"""A real lab and a real PostgreSQL: a service gets its own login by declaration, keeps its rows when it moves to
another node, loses the old login there, and gives everything back but the rows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.postgres_server import ADMIN, ADMIN_PASSWORD, PostgresServer, postgres_server, visible
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SERVICE = """
node = "{node}"
[[components]]
name = "web"
image = "{image}"
user = "1000:1000"
"""
NEED = """
[[needs]]
name = "db"
type = "postgres"
required = true
"""
PROVIDES = """
[[provides]]
node = "p1"
type = "postgres"
services = ["web"]
grace = "20s"
params = {{ address = "{address}", secret = "db-admin", user = "{admin}" }}
"""


@dataclass(frozen=True)
class Scene:
    made: LabUnderTest
    server: PostgresServer

    def write(self, node: str, more: str) -> None:
        self.made.write("web", SERVICE.format(node=node, image=f"{self.made.registry}/hello:1") + more)

    def needs(self) -> dict[str, Any]:
        (found,) = json.loads(self.made.run("need", "list", "--json").ok().out)["needs"]
        return dict(found)

    def grants(self) -> list[tuple[str, str]]:
        found = json.loads(self.made.run("grant", "list", "--json").ok().out)["grants"]
        return [(one["node"], one["state"]) for one in found]

    def values(self, node: str) -> dict[str, str]:
        """As the container finds them, as its own user."""
        label = "label=holdfast.service=web"
        (id,) = self.made.enter(node, "podman", "ps", "--quiet", "--filter", label).ok().out.split()
        fields = ("user", "password", "database", "host", "port")
        return {
            field: self.made.enter(node, "podman", "exec", id, "cat", f"/run/needs/db/{field}").ok().out
            for field in fields
        }

    def rows(self, values: dict[str, str], query: str) -> list[tuple[object, ...]]:
        with self.server.connected(values["user"], values["password"], values["database"]) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    room = tmp_path_factory.mktemp("needs")
    nodes = "hub1:hub,w1:worker,w2:worker,p1:worker+provider"
    with lab(room, nodes=nodes) as made, postgres_server() as server:
        made.lab("fast").ok()
        server.stop()
        with (server.home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("hostssl all all 100.64.0.0/10 scram-sha-256\n")
        server.start("listen_addresses=*")
        (room / "password").write_text(ADMIN_PASSWORD)
        host = made.registry.partition(":")[0]
        with (made.dir / "fleet" / "fleet.toml").open("a") as fleet:
            fleet.write(PROVIDES.format(address=f"{host}:{server.port}", admin=ADMIN))
        made.run("secret", "set", "db-admin", "--file", str(room / "password")).ok()
        yield Scene(made, server)


def test_a_service_gets_a_login_by_declaration(scene: Scene) -> None:
    scene.write("w1", NEED)
    scene.made.run("apply", "--yes").ok()
    wait_until(lambda: scene.needs()["state"] == "fulfilled", lambda: scene.needs())
    values = scene.values("w1")
    assert values["host"] == scene.made.registry.partition(":")[0] and values["port"] == str(scene.server.port)
    scene.rows(values, "CREATE TABLE notes (page text)")
    scene.rows(values, "INSERT INTO notes VALUES ('first')")
    wait_until(lambda: scene.grants() == [("w1", "held")], lambda: scene.grants())
    assert visible(values["password"]) == [] and visible(ADMIN_PASSWORD) == []
    assert leaks(scene, values["password"], ADMIN_PASSWORD) == []


def leaks(scene: Scene, *words: str) -> list[str]:
    """Files of the hub, and logs and state of every node, that have one of these."""
    folders = [Path(node["dirs"]["state"]) for node in json.loads(scene.made.lab("status", "--json").ok().out)["nodes"]]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(word.encode() in path.read_bytes() for word in words)]


def test_the_rows_go_with_the_service_and_the_old_login_ends(scene: Scene) -> None:
    old = scene.values("w1")
    scene.write("w2", NEED)
    scene.made.run("apply", "--yes").ok()
    wait_until(lambda: ("w2", "held") in scene.grants(), lambda: scene.grants())
    new = scene.values("w2")
    assert new["user"] != old["user"] and new["database"] == old["database"]
    assert scene.rows(new, "SELECT page FROM notes") == [("first",)]
    scene.rows(new, "INSERT INTO notes VALUES ('second')")
    with pytest.raises(psycopg.OperationalError):
        scene.rows(old, "SELECT 1")
    wait_until(lambda: scene.grants() == [("w2", "held")], lambda: scene.grants())


def test_a_need_that_is_removed_gives_its_login_back_and_the_rows_stay(scene: Scene) -> None:
    values = scene.values("w2")
    scene.write("w2", "")
    scene.made.run("apply", "--yes").ok()
    wait_until(lambda: scene.grants() == [], lambda: scene.grants(), 120)
    with pytest.raises(psycopg.OperationalError):
        scene.rows(values, "SELECT 1")
    found = scene.server.rows("SELECT page FROM notes ORDER BY page", database=values["database"])
    assert found == [("first",), ("second",)]
    logged = scene.made.inside("p1", "holdfast", "audit", "--node", "p1").ok().out
    assert "grant_issued" in logged and "grant_revoked" in logged
