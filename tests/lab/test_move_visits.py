"""A public service moves while visitors ask for it: they notice one short pause, whichever way its data goes, and no
answer comes from the old copy once the new one has answered."""

import json
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.load import Visit, Visitors
from tests.lab.test_moves import data, running

pytestmark = pytest.mark.lab

MIB = 1 << 20
PAUSE_S_MAX = 15.0  # of a machine that does other things too; the bench measures it on an idle one
URL = "https://shop.example.test/"
SHOP = """node = "w1"

[[components]]
name = "web"
image = "{registry}/witness:1"
health = {{ type = "http", path = "/health", port = 8080 }}

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"

[[components.routes]]
name = "http"
port = 8080
public = true
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("visits"), nodes="hub1:hub,w1:worker,w2:worker,e1:edge") as found:
        found.lab("fast").ok()
        found.write("shop", SHOP.format(registry=found.registry))
        found.run("deploy", "shop", "--yes").ok()
        (data(found, "w1", "shop") / "more").write_bytes(os.urandom(20 * MIB))
        yield found


@pytest.fixture(scope="module")
def authorities(made: LabUnderTest) -> Path:
    path = made.home / "authorities.pem"
    path.write_text(made.run("ca", "bundle").ok().out)
    return path


def declared(made: LabUnderTest, key: str) -> None:
    """For both workers."""
    file = made.fleet / "fleet.toml"
    file.write_text(re.sub(r'^name = "w\d"$', lambda found: f"{found[0]}\n{key}", file.read_text(), flags=re.M))
    made.run("apply", "--yes").ok()


def moved(made: LabUnderTest, authorities: Path, node: str, way: str) -> None:
    visitors = Visitors(URL, made.address("e1"), authorities, rate=40, keeping=4)
    with visitors.at_work():
        visitors.await_visits(40)
        done = made.run("migrate", "shop", "--to", node, "--force", "--yes", "--verbose").ok()
        visitors.await_visits(40)
    assert ("hand over directly" in done.out + done.err) == (way == "directly"), done
    failed, pause_s = visitors.failures, pause_of(visitors.visits)
    print(f"{way}: {len(failed)} of {len(visitors.visits)} failed, {pause_s:.1f} s without an answer; {visitors.tally}")
    assert pause_s <= PAUSE_S_MAX
    told = [json.loads(one.body) for one in sorted(visitors.visits, key=ended_s) if not one.trouble]
    instances = [(one["instance"], one["epoch"]) for one in told]
    first = instances.index(instances[-1])
    assert len(set(instances)) == 2 and set(instances[first:]) == {instances[-1]}, "the old one answers no more"
    sequences = [one["seq"] for one in told]
    assert min(sequences[first:]) >= max(sequences[:first]), "nothing that a visitor saw is lost"
    assert running(made, "shop") == [node]


def ended_s(one: Visit) -> float:
    return one.began_s + one.took_s


def pause_of(visits: list[Visit]) -> float:
    """The longest time without an answer."""
    times = sorted(ended_s(one) for one in visits if not one.trouble)
    return max(after - before for before, after in pairwise(times))


def test_directly(made: LabUnderTest, authorities: Path) -> None:
    moved(made, authorities, "w2", "directly")


def test_through_the_hub(made: LabUnderTest, authorities: Path) -> None:
    declared(made, 'peer_calls = "relay"')
    moved(made, authorities, "w1", "through the hub")


def test_between_nodes_that_only_call_the_hub(made: LabUnderTest, authorities: Path) -> None:
    """`link = "poll"` beside a node that the hub calls."""
    file = made.fleet / "fleet.toml"
    file.write_text(file.read_text().replace('peer_calls = "relay"', 'link = "poll"'))
    made.run("apply", "--yes").ok()
    moved(made, authorities, "w2", "directly")
