"""R01, R02, R05, R06 on deploying: an agent killed, starved or lied to by its disk ends with exactly what is wanted.

strace stands beside the agent of a real node and kills it at its n-th flush, rename or write while a service is
deployed, changed and taken away; a second killer does so at the n-th event of podman. n grows until a run is not hit,
so that no position is assumed; `make test` takes a sample of them, `make soak` every one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import apsw
import pytest

from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import NODE, DeployScene, deploy_scene
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(14400 if SOAK else 600)]

CALLS = ("fdatasync", "fsync", "pwrite64", "rename", "renameat", "unlink") if SOAK else ("fdatasync",)
FLUSHES: Sequence[int] = range(1, 400) if SOAK else (4,)
EVENTS: Sequence[int] = range(1, 60) if SOAK else (2,)
CONVERGED_S_MAX = 60.0
SETTLE_S = 60.0
TOLD_S_MAX = 30.0  # R06 says 10, on a machine of its own
SERVICE = "witness"
Wanted = Callable[[], Callable[[], bool]]  # asks for something; what it returns tells whether it is there


class Fault(Protocol):
    def has_killed(self) -> bool: ...


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployScene]:
    with deploy_scene(tmp_path_factory.mktemp("crash")) as scene:
        yield scene


@pytest.fixture
def scene(lab: DeployScene) -> Iterator[DeployScene]:
    yield lab
    assert lab.foreign_untouched()


class Work:
    """One thing an operator wants of the witness, and how one sees that it was done."""

    def __init__(self, scene: DeployScene, service: str = SERVICE) -> None:
        self.scene = scene
        self.service = service
        self.mark = 0

    def change(self) -> Callable[[], bool]:
        """Deploy, or another one in place of it: the mark makes it a new container each time."""
        self.mark += 1
        mark = str(self.mark)
        self.scene.witness(self.service, MARK=mark)
        self.scene.run("apply", "--yes", "--detach").ok()
        return lambda: self._is_one(mark)

    def remove(self) -> Callable[[], bool]:
        self.scene.gone(self.service)
        self.scene.run("apply", "--yes", "--allow-removals", "1", "--detach").ok()
        return lambda: self.scene.containers(self.service) == []

    def _is_one(self, mark: str) -> bool:
        found = self.scene.containers(self.service)
        return len(found) == 1 and found[0].running and self._mark_of(found[0].id) == mark

    def _mark_of(self, id: str) -> str:
        """ "" also of one that is gone by now."""
        words = ("podman", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", id)
        said = self.scene.made.enter(NODE, *words).out
        return next((line.partition("=")[2] for line in said.splitlines() if line.startswith("MARK=")), "")


def killed(work: Work, fault: AbstractContextManager[Fault], wanted: Wanted, where: str) -> bool:
    """Whether it was killed before the work was done; everything that must hold afterwards was looked at."""
    scene = work.scene
    with fault as killer:
        done = wanted()
        give_up_s = time.monotonic() + SETTLE_S
        while not killer.has_killed() and not (done() and is_quiet(scene)) and time.monotonic() < give_up_s:
            time.sleep(0.05)
    hit = killer.has_killed()  # from here on it cannot be hit any more
    if hit:
        scene.start_agent()
    took_s = wait_until(lambda: done() and is_quiet(scene), f"converged after {where}", CONVERGED_S_MAX)
    print(f"{where}: {'killed' if hit else 'not hit'}, {took_s:.1f} s")
    assert scene.lost(work.service) == set()
    assert scene.collector(work.service).interleaved() == []
    assert scene.foreign_untouched()
    return hit


def killed_everywhere(
    scene: DeployScene, fault: Callable[[int], AbstractContextManager[Fault]], name: str, positions: Sequence[int]
) -> dict[str, int]:
    """There from nothing, changed, gone; each killed at position n of its own, for growing n until none is hit.

    Another service after every 20 positions: each change makes a checkpoint, which later ones share files with.
    """
    hits, over = {"deploy": 0, "change": 0, "remove": 0}, set()
    work = Work(scene, f"{SERVICE}-{name}")
    for n in positions:
        if n % 20 == 0:
            work = Work(scene, f"{SERVICE}-{name}-{n}")
        kinds: dict[str, Wanted] = {"deploy": work.change, "change": work.change, "remove": work.remove}
        for kind, wanted in kinds.items():
            if killed(work, fault(n), wanted, f"{kind}, {name} {n}"):
                hits[kind] += 1
            else:
                over.add(kind)
        if len(over) == len(hits):
            break
    else:
        assert not SOAK, "there are more positions than were tried"
    print(name, hits)
    return hits


def is_quiet(scene: DeployScene) -> bool:
    """Nothing is under way in the agent's journal."""
    path = Path(scene.made.node(NODE)["dirs"]["state"]) / "agent" / "agent.db"
    db = apsw.Connection(f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        return list(db.execute("SELECT count(*) FROM operations WHERE outcome IS NULL")) == [(0,)]
    except apsw.BusyError:
        return False
    finally:
        db.close()


@pytest.mark.parametrize("call", CALLS)
def test_an_agent_killed_at_any_flush_while_it_deploys_ends_with_one_copy(scene: DeployScene, call: str) -> None:
    """R02: every step of the journal is a flush."""
    hits = killed_everywhere(scene, lambda n: scene.meddled(f"{call}:signal=SIGKILL:when={n}"), call, FLUSHES)
    assert call != "fdatasync" or all(count >= (2 if SOAK else 1) for count in hits.values()), hits


def test_an_agent_killed_between_two_calls_of_podman_ends_with_one_copy(scene: DeployScene) -> None:
    """R01: made, started, stopped, removed, and nobody is there who could write it down."""
    hits = killed_everywhere(scene, scene.killing_at_event, "event", EVENTS)
    assert all(hits.values()) and sum(hits.values()) >= (5 if SOAK else 3), hits


@pytest.mark.parametrize(
    ("fault", "restart"),
    [("pwrite64:error=ENOSPC:when=1+", False), ("fdatasync:error=EIO:when=1+", True)],
    ids=["full", "broken"],
)
def test_a_disk_that_fails_costs_a_pause_and_nothing_else(scene: DeployScene, fault: str, restart: bool) -> None:
    """R05, R06: nothing is done that the journal could not keep, the old one runs, and somebody is told. A full disk
    that has room again needs nobody; after a flush that failed nothing in memory is trusted, so a restart is due."""
    work = Work(scene)
    work.mark = 1000 if restart else 2000
    wait_until(work.change(), "it runs", CONVERGED_S_MAX)
    wait_until(lambda: is_quiet(scene), "and the agent rests")
    old = scene.one(SERVICE)
    with scene.meddled(fault) as meddler:
        done = work.change()
        wait_until(lambda: meddler.has_killed() or is_degraded(scene), "it ends, or says so", TOLD_S_MAX)
        time.sleep(30 if SOAK else 2)
        assert [one.identity for one in scene.containers(SERVICE)] == [old.identity], "no journal, no deed"
        assert scene.answers(old)
    ended = meddler.has_killed()
    if restart and not ended:
        scene.kill_agent()
    if restart or ended:
        scene.start_agent()
    wait_until(done, "converged once the disk is well", CONVERGED_S_MAX)
    assert scene.lost(SERVICE) == set() and scene.collector(SERVICE).interleaved() == []


def is_degraded(scene: DeployScene) -> bool:
    """In the words of the node: what it cannot write, or which service waits for that."""
    told = scene.findings("node_degraded", "node_unhealthy", "state_unwritable", "service_waits")
    return any(each["address"] in (f"node.{NODE}", f"service.{SERVICE}") for each in told)
