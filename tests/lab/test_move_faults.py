"""R01, R02, R09 on moves, with real processes: whatever dies, stands still or is cut off while a witness moves between
two nodes, one copy runs in the end, no two ever ran at once, and no number that the witness reported is lost (I-20).

The moment is read in the journal of the agent that it is about. `make test` takes three faults, `make soak` all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import Collector
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.waiting import wait_until
from tests.lab.test_moves import data, running

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600 if SOAK else 600)]

MORE_BYTES = 60_000_000  # so that a pass takes a moment
PAUSE_S = 4.0  # of what is stopped or cut
ONE_RUNS_S_MAX = 60.0
NAME = "witness"

# Of the journal: the fact about the move and what must be in it.
MOMENTS = {
    "begun": ("source", b'"epoch"'),
    "copied": ("source", b'"passes"'),
    "stopping": ("source", b'"stopping":true'),
    "handed over": ("source", b'"handover"'),
    "received": ("target", b'"number"'),
    "placing": ("target", b'"placing":true'),
    "arrived": ("target", b'"has_arrived":true'),
}


class Scene:
    def __init__(self, made: LabUnderTest) -> None:
        self.made = made
        self.collector = Collector(made.registry.partition(":")[0])
        self.home, self.away, self.epoch = "w1", "w2", 1

    def deploy(self) -> None:
        self.made.write(
            NAME,
            f'node = "w1"\n[[components]]\nname = "web"\nimage = "{self.made.registry}/witness:1"\n'
            f'env = {{ WITNESS_COLLECTOR = "{self.collector.url}" }}\n'
            '[[components.volumes]]\nname = "files"\npath = "/data"\nprotect = "backup"\n',
        )
        self.made.run("deploy", NAME, "--yes").ok()
        (data(self.made, "w1", NAME) / "more").write_bytes(os.urandom(MORE_BYTES))

    def begin(self) -> None:
        self.made.run("migrate", NAME, "--to", self.away, "--force", "--yes", "--detach").ok()
        self.epoch += 1

    def node(self, who: str) -> str:
        return {"source": self.home, "target": self.away, "hub": "hub1"}[who]

    def pid(self, who: str) -> int:
        pids = self.made.node(self.node(who))["pids"]
        return int(pids["hub" if who == "hub" else "agent"])

    def is_at(self, moment: str) -> bool:
        side, words = MOMENTS[moment]
        fact = self._fact(self.node(side), f"moves/{'out' if side == 'source' else 'into'}/{NAME}")
        return words in fact and msgspec.json.decode(fact)["epoch"] == self.epoch

    def _fact(self, node: str, name: str) -> bytes:
        path = Path(self.made.node(node)["dirs"]["state"]) / "agent" / "agent.db"
        db = apsw.Connection(f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            return next((bytes(row[0]) for row in db.execute("SELECT value FROM facts WHERE name = ?", (name,))), b"{}")
        except apsw.BusyError:
            return b"{}"
        finally:
            db.close()

    def until(self, moment: str) -> None:
        end_s = time.monotonic() + ONE_RUNS_S_MAX
        while not self.is_at(moment):
            assert time.monotonic() < end_s, f"the move was never {moment}"
            time.sleep(0.001)

    def ends_well(self, where: str) -> None:
        took_s = wait_until(
            lambda: running(self.made, NAME) == [self.away], f"one copy runs after {where}", ONE_RUNS_S_MAX
        )
        self.made.run("migrate", NAME, "--to", self.away, "--yes").ok()  # it is over: nothing happens
        assert len(self._containers(self.home)) == 0, "the source runs it no more"
        assert len(self._containers(self.away)) == 1
        told = {seq for _, _, seq in list(self.collector.heard)}
        kept = {
            int(line.split()[0]) for line in (data(self.made, self.away, NAME) / "sequence").read_text().splitlines()
        }
        print(f"{where}: {took_s:.1f} s, {len(told)} numbers")
        assert told - kept == set(), f"numbers are lost after {where}"
        assert self.collector.interleaved() == [], f"two copies ran after {where}"
        self.home, self.away = self.away, self.home

    def _containers(self, node: str) -> list[str]:
        words = ("podman", "ps", "--quiet", "--filter", f"label=holdfast.service={NAME}")
        return self.made.inside(node, *words).ok().out.split()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with lab(tmp_path_factory.mktemp("movefaults"), nodes="hub1:hub,w1:worker,w2:worker") as made:
        made.lab("fast").ok()
        found = Scene(made)
        found.deploy()
        yield found
        found.collector.close()


def agent_dies(scene: Scene, who: str) -> None:
    os.kill(scene.pid(who), signal.SIGKILL)
    scene.made.lab("start", scene.node(who)).ok()


def machine_dies(scene: Scene, who: str) -> None:
    scene.made.lab("kill", scene.node(who)).ok()
    scene.made.lab("start", scene.node(who)).ok()


def hub_dies(scene: Scene, _: str) -> None:
    scene.made.lab("kill", "hub").ok()
    time.sleep(1.0)
    scene.made.lab("start", "hub").ok()


def stands_still(scene: Scene, who: str) -> None:
    pid = scene.pid(who)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    os.kill(pid, signal.SIGCONT)


def cut_off(*pair: str) -> Callable[[Scene, str], None]:
    def cut(scene: Scene, _: str) -> None:
        scene.made.lab("cut", *map(scene.node, pair)).ok()
        time.sleep(PAUSE_S)
        scene.made.lab("heal").ok()

    return cut


Fault = Callable[[Scene, str], None]
FAULTS: list[tuple[str, Fault, str, str]] = [
    ("the agent of the source dies", agent_dies, "source", "stopping"),
    ("the agent of the target dies", agent_dies, "target", "placing"),
    ("the hub dies", hub_dies, "hub", "begun"),
]
if SOAK:
    FAULTS = [
        *((f"the agent of the {who} dies", agent_dies, who, at) for at in MOMENTS for who in ("source", "target")),
        *((f"the machine of the {who} dies", machine_dies, who, at) for at in MOMENTS for who in ("source", "target")),
        *(("the hub dies", hub_dies, "hub", at) for at in MOMENTS),
        *((f"the {who} stands still", stands_still, who, at) for at in MOMENTS for who in ("source", "target", "hub")),
        *(("source and target are cut", cut_off("source", "target"), "source", at) for at in MOMENTS),
        *(("source and hub are cut", cut_off("source", "hub"), "source", at) for at in MOMENTS),
        *(("target and hub are cut", cut_off("target", "hub"), "target", at) for at in MOMENTS),
    ]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: f"{one[0]}, {one[3]}".replace(" ", "-"))
def test_one_copy_runs_and_nothing_is_lost_when(scene: Scene, fault: tuple[str, Fault, str, str]) -> None:
    name, strike, who, moment = fault
    scene.begin()
    scene.until(moment)
    strike(scene, who)
    scene.ends_well(f"{name}, {moment}")
