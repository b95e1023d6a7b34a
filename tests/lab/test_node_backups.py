"""The backup of a node itself in a real fleet: it has the certificates of routes, and nothing that proves a machine."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until

pytestmark = pytest.mark.lab

SERVICE = """
[[components]]
name = "web"
image = "{image}"

[[components.routes]]
name = "http"
port = 8080
"""
WITHHELD = ("node.key", "agent.db", "agent.db-wal", "nonces.db", "audit.jsonl", "issuer.key", "serving.key")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("own"), nodes="hub1:hub,w1:worker") as found:
        found.lab("fast").ok()
        found.write("web", SERVICE.format(image=f"{found.registry}/hello:1"))
        found.run("deploy", "web", "--yes").ok()
        yield found


def own(made: LabUnderTest) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(made.run("backup", "list", "--json").ok().out)["backups"]
    return [one for one in found if one["service"] == "node.w1"]


def test_a_node_is_backed_up_listed_verified_exported_and_its_certificates_come_back_m34(
    made: LabUnderTest, tmp_path: Path
) -> None:
    state = Path(made.node("w1")["dirs"]["state"]) / "agent"
    wait_until(lambda: bool(own(made)), "w1 has backed itself up")
    made.run("backup", "node.w1", "--wait").ok()
    assert "node.w1" in made.run("backup", "list").ok().out and "node.w1 made" in made.run("status").ok().out
    made.run("backup", "verify", "node.w1").ok()
    assert made.run("backup", "show", "node.w1", "--json").ok().json["method"] == "node"
    refused = made.run("restore", "node.w1", "--yes")
    assert refused.code == 2 and "holdfast backup export node.w1" in refused.err
    file = tmp_path / "own.tar.zst"
    runs("holdfast backup export {} FILE", ("node.w1",), lambda line: made.run(*line.split()[1:]), FILE=str(file))
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", str(file), "-C", str(out)], check=True)
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("routes/")} and "identity.json" in names
    for path in (state / "routes").iterdir():
        assert (out / "routes" / path.name).read_bytes() == path.read_bytes()
    whole = b"\0".join(path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file())
    for name in WITHHELD:
        assert name not in {Path(one).name for one in names}
        content = (state / name).read_bytes() if (state / name).exists() else b""
        for line in content.splitlines():
            assert len(line) < 20 or line.startswith(b"-----") or line not in whole, f"a line of {name}"
    stored = Path(made.node("hub1")["dirs"]["state"]) / "hub" / "backups"
    key = next(line for line in (state / "node.key").read_bytes().splitlines()[1:])
    certificate = next((state / "routes").iterdir()).read_bytes().splitlines()[1]
    for path in stored.rglob("*"):
        assert path.is_dir() or (key not in path.read_bytes() and certificate not in path.read_bytes()), path
    assert not (state / "backups" / "own").exists()
