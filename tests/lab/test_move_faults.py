"""R01, R02, R09 on moves, with real processes: whatever dies, stands still or is cut off while a witness moves between
two nodes, one copy runs in the end, no two ever ran at once, and no number that the witness reported is lost (I-20).

The moment is read in the journal of the agent that it is about, or is a system call that strace counts. `make test`
takes a few faults, `make soak` all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import Collector, Meddler
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


def fact(made: LabUnderTest, node: str, name: str) -> bytes:
    """What the agent of this node keeps under this name."""
    path = Path(made.node(node)["dirs"]["state"]) / "agent" / "agent.db"
    db = apsw.Connection(f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        return next((bytes(row[0]) for row in db.execute("SELECT value FROM facts WHERE name = ?", (name,))), b"{}")
    except apsw.BusyError:
        return b"{}"
    finally:
        db.close()


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

    def is_ready(self) -> None:
        """The hub may not have heard the target yet, which was cut off a moment ago."""
        wait_until(lambda: "unhealthy" not in self.made.run("node", "list").ok().out, "all nodes are healthy")

    def begin(self, is_sure: bool = True) -> None:
        done = self.made.run("migrate", NAME, "--to", self.away, "--force", "--yes", "--detach")
        assert done.code == 0 or not is_sure, done
        self.epoch += 1

    def node(self, who: str) -> str:
        return {"source": self.home, "target": self.away, "hub": "hub1"}[who]

    def pid(self, who: str) -> int:
        pids = self.made.node(self.node(who))["pids"]
        return int(pids["hub" if who == "hub" else "agent"])

    def is_at(self, moment: str) -> bool:
        side, words = MOMENTS[moment]
        found = fact(self.made, self.node(side), f"moves/{'out' if side == 'source' else 'into'}/{NAME}")
        return words in found and msgspec.json.decode(found)["epoch"] == self.epoch

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
    scene.is_ready()
    scene.begin()
    scene.until(moment)
    strike(scene, who)
    scene.ends_well(f"{name}, {moment}")


# R09: stands still for long, while the operator repeats the command, or takes the move back.
LONG_S = 65.0 if SOAK else 5.0
LONG = [("target", "received", True)]
if SOAK:
    LONG = [
        *((who, at, False) for who, at in (("source", "stopping"), ("target", "placing"), ("hub", "begun"))),
        *((who, at, True) for who, at in (("source", "copied"), ("target", "received"), ("source", "handed over"))),
    ]


@pytest.mark.parametrize(("who", "moment", "is_aborted"), LONG)
def test_one_that_stood_still_for_long_is_fenced_while_the_operator_repeats_the_command(
    scene: Scene, who: str, moment: str, is_aborted: bool
) -> None:
    scene.is_ready()
    scene.begin()
    scene.until(moment)
    pid = scene.pid(who)
    os.kill(pid, signal.SIGSTOP)
    try:
        until_s = time.monotonic() + LONG_S
        words = ("--abort",) if is_aborted else ("--to", scene.away, "--force")
        is_back = False
        while time.monotonic() < until_s:
            done = scene.made.run("migrate", NAME, *words, "--yes", "--detach")
            assert done.code in (0, 5, 6), done
            is_back = is_back or (is_aborted and done.code == 0)
            time.sleep(1.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert is_back == is_aborted
    if is_back:
        scene.home, scene.away = scene.away, scene.home
        scene.epoch += 1
    scene.ends_well(f"the {who} stood still for {LONG_S:.0f} s, {moment}{', taken back' * is_back}")


# R02: killed at its n-th call of a kind, for n = first, first + stride, … until a move is over before that.
CALLS = ("fdatasync", "fsync", "pwrite64", "rename", "renameat", "unlink")
STRIDES = {"pwrite64": 3}
POSITIONS: Sequence[tuple[str, str, Sequence[int]]] = [("target", "fdatasync", (1,))]
if SOAK:
    POSITIONS = [
        (who, call, range(1, 400, STRIDES.get(call, 1))) for who in ("source", "target", "hub") for call in CALLS
    ]
OVER_S = 20.0  # a move, or what is left of it while each archiver is killed


@pytest.mark.parametrize(("who", "call", "positions"), POSITIONS, ids=lambda one: one if isinstance(one, str) else "")
def test_one_copy_runs_and_nothing_is_lost_after_a_kill_at_a_call(
    scene: Scene, who: str, call: str, positions: Sequence[int]
) -> None:
    """Its archiver is a process of its own and dies too, each time that it makes as many."""
    hits = 0
    for n in positions:
        killed = is_killed_at(scene, who, f"{call}:signal=SIGKILL:when={n}")
        scene.ends_well(f"the {who} dies at {call} {n}" if killed else f"{call} {n} of the {who}")
        hits += killed
        if SOAK and not killed:
            break
    print(f"{who}, {call}: {hits} positions")
    assert hits or call not in ("fdatasync", "pwrite64")


def is_killed_at(scene: Scene, who: str, fault: str) -> bool:
    """Whether it died before the move was over; it runs again."""
    scene.is_ready()
    node, pid = scene.node(who), scene.pid(who)
    meddler = Meddler(pid, scene.made.home / "strace.log", [fault])
    try:
        scene.begin(is_sure=who != "hub")
        until_s = time.monotonic() + OVER_S
        while not meddler.has_killed() and not scene.is_at("arrived") and time.monotonic() < until_s:
            time.sleep(0.02)
    finally:
        meddler.leave()
    killed = meddler.has_killed()
    if killed:
        scene.made.lab("start", "hub" if who == "hub" else node).ok()
    if who == "hub":  # it may have died before it stored the revision
        wait_until(lambda: scene.made.run("plan").code in (0, 3), "the hub answers")
        scene.made.run("migrate", NAME, "--to", scene.away, "--force", "--yes", "--detach").ok()
    return killed
