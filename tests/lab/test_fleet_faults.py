"""Faults on a real fleet: its hub killed, wires cut and bad, agents killed, a key revoked (R03, R07, R08; I-01, I-30).

One lab for all of it. Its pace is the ordinary one until the first test that asks for `paced`, and fast from then on;
under HOLDFAST_SOAK=1 the waits of an ordinary fleet are waited for first, in full.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.fault_scene import Ear, FaultyFleet
from tests.fleets.lab import CALL_S, lab
from tests.fleets.waiting import PATIENCE_S, Stopwatch, wait_until
from tests.lab.product import Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(7200 if SOAK else 600)]

SEED = 20260703
KILLS, APPLIES_MIN = (100, 300) if SOAK else (4, 8)
ANSWERS_S_MAX = 5.0  # R03, after a restart
RECEIPTS_S = 30.0  # how long an apply waits for nodes, as its help and its refusal say
AGREED_S_MAX = 60.0  # R08, after healing
UNREACHABLE = 6


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyFleet]:
    with lab(tmp_path_factory.mktemp("faults")) as made:
        scene = FaultyFleet(made, Ear(made.registry.partition(":")[0]))
        try:
            made.alert(scene.ear.url)
            yield scene
        finally:
            scene.close()


@pytest.fixture(autouse=True)
def mended(fleet: FaultyFleet) -> Iterator[None]:
    """A test that fails leaves its fault and its commands behind; the next one is about its own."""
    known = fleet.under_way
    yield
    fleet.end(fleet.under_way - known)
    fleet.mend()


@dataclass(frozen=True)
class Pace:
    """Seconds, as the cadence of the hub and the back-off of the agents promise them."""

    fast: bool
    unhealthy_min_s: float
    unhealthy_max_s: float
    cut_s: float
    dead_s: float
    back_max_s: float


ORDINARY = Pace(False, 60, 110, 600, 600, 65)
FAST = Pace(True, 2, 7, 5, 6, 10)  # 5 s, and what asking costs


@pytest.fixture(scope="module", params=[ORDINARY, FAST] if SOAK else [FAST], ids=lambda pace: "fast"[: 4 * pace.fast])
def paced(request: pytest.FixtureRequest, fleet: FaultyFleet) -> Pace:
    pace = request.param
    assert isinstance(pace, Pace)
    if pace.fast:
        fleet.made.lab("fast").ok()
    wait_until(fleet.are_healthy, "every node is healthy")
    return pace


# ---- an agent dies while its question is held


def test_an_order_and_a_revision_for_a_dead_line_reach_the_agent_that_comes_back(
    fleet: FaultyFleet, tmp_path: Path
) -> None:
    """C-01, T-04: nobody is at the other end of a held check-in whose agent was killed; nothing is spent on him."""
    wait_until(lambda: fleet.nodes()["w1"]["age_s"] > 0.5, "w1 has been held for a while")
    order = str(tmp_path / "ping.order")
    fleet.run("order", "sign", "--node", "w1", "--action", "ping", "--expires", "1h", "-o", order, "--yes").ok()
    fleet.service("book", "w1", "for a dead line")
    os.kill(fleet.pid("w1"), signal.SIGKILL)
    id = fleet.run("order", "submit", order, "--json").ok().json["id"]
    head = fleet.apply("--detach").ok().json["applied"]
    began_s = time.monotonic()
    fleet.made.lab("start", "w1").ok()
    wait_until(lambda: fleet.nodes()["w1"]["accepted"] == head, "w1 has the revision")
    wait_until(lambda: _order_state(fleet, id) == "done", "w1 has done the order")
    print(f"order and revision {time.monotonic() - began_s:.2f} s after the agent's start")
    entries = fleet.inside("w1", "holdfast", "agent", "journal", "--json").ok().json["operations"]
    assert [entry["outcome"] for entry in entries if entry["order"] == id] == ["done"]


def _order_state(fleet: FaultyFleet, id: str) -> str:
    orders = fleet.run("order", "list", "--node", "w1", "--json").ok().json["orders"]
    return next(str(order["state"]) for order in orders if order["id"] == id)


# ---- silence (R07)


@pytest.fixture(scope="module")
def hopeless(fleet: FaultyFleet, paced: Pace) -> Iterator[Future[tuple[Outcome, bool]]]:
    """An apply that needs the signature of hub1, whose agent is dead: it goes on while others are cut and healed."""
    number = fleet.head()["number"]
    fleet.service("quiet", "hub1", f"nobody there {paced.fast}")
    fleet.silent.add("hub1")
    os.kill(fleet.pid("hub1"), signal.SIGKILL)

    def applied() -> tuple[Outcome, bool]:
        """Its outcome, and whether it ended in its time."""
        watch = Stopwatch()
        outcome = fleet.apply()
        return outcome, watch.wall_s >= RECEIPTS_S and watch.within(RECEIPTS_S + 5)

    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(applied)
            wait_until(lambda: fleet.head()["number"] > number, "it is applied, and waits")
            yield future
    finally:
        fleet.silent.discard("hub1")


def test_r07_a_cut_node_is_missed_once_left_alone_and_taken_back(
    fleet: FaultyFleet, paced: Pace, hopeless: Future[tuple[Outcome, bool]]
) -> None:
    """R07, I-30, I-31: unhealthy in its time, one alert, nothing moved, healthy after healing, one recovery notice."""
    fleet.settle("w1", "e1")  # what waits for hub1 is a revision for them, too
    before = fleet.life("w1")
    heard = len(fleet.ear.heard)
    fleet.service("book", "w1", f"r07-{paced.fast}")
    began_s = time.monotonic()  # not after the cut: a busy machine may need a second to come back from it
    with fleet.cut("w1"):
        applying = fleet.begin("apply", "--yes", "--json")
        wait_until(lambda: fleet.status("w1") == "unhealthy", "w1 is missed", paced.unhealthy_max_s)
        missed_s = time.monotonic() - began_s
        assert paced.unhealthy_min_s <= missed_s
        wait_until(lambda: fleet.ear.about("w1")[-1:] == ["node_silent"], "somebody is told")
        told_s = time.monotonic() - began_s
        time.sleep(max(0.0, paced.cut_s - told_s))
        assert fleet.life("w1") == before, "a node nobody hears goes on as it was"
    back_s = wait_until(lambda: fleet.status("w1") == "healthy", "w1 is back", paced.back_max_s)
    wait_until(lambda: fleet.ear.about("w1")[-1:] == ["node_back"], "somebody is told that it is over")
    print(f"missed after {missed_s:.1f} s, told after {told_s:.1f} s, healthy {back_s:.1f} s after healing")
    others = ("node_silent", "node.hub1")  # whose agent is dead, and stays so
    assert [one for one in fleet.ear.heard[heard:] if one != others] == [
        (c, "node.w1") for c in ("node_silent", "node_back")
    ]
    assert fleet.ear.about("hub1")[-1:] == ["node_silent"] and fleet.ear.heard[heard:].count(others) <= 1
    _check_apply(fleet.outcome(applying), "w1")
    wait_until(lambda: fleet.agree("w1", "e1"), "they accepted what was applied meanwhile", AGREED_S_MAX)
    assert fleet.pid("w1") == before["pid"] and fleet.life("w1")["journal"] == before["journal"]


def _check_apply(outcome: Outcome, node: str) -> None:
    """It succeeded with that node's signature, or it failed cleanly and says whom it missed."""
    if outcome.code == 0:
        assert node in outcome.json["receipts"]["accepted"]
    else:
        refusal = outcome.refused(UNREACHABLE, "receipts_missing")
        assert node in refusal["message"] and "is applied" in refusal["message"]


# ---- bad networks (R08)


def test_r08_over_bad_wires_an_apply_succeeds_or_says_whom_it_missed(
    fleet: FaultyFleet, paced: Pace, hopeless: Future[tuple[Outcome, bool]]
) -> None:
    """R08. Meanwhile one node answers nobody at all, and the apply that needs it ends in its time, naming it."""
    fleet.silent.discard("hub1")  # the last test that wants it dead, however it ends
    for name, often, fault in (
        ("5 of 100 lost", 10 if SOAK else 3, fleet.dropping("w1", incoming=5, outgoing=5)),
        ("30 of 100 lost", 10 if SOAK else 1, fleet.dropping("w1", incoming=30, outgoing=30)),
        ("256 kbit", 10 if SOAK else 2, fleet.narrow("w1", "256kbit")),
    ):
        with fault:
            took_s = [_apply_to_w1(fleet, f"{name} {paced.fast} {at}", inside=at % 2 == 1) for at in range(often)]
        print(f"{name}: {max(took_s):.1f} s at most")
    fleet.service("book", "w1", f"one way {paced.fast}")
    with fleet.dropping("w1", incoming=100), fleet.dropping("e1", outgoing=100):
        applying = fleet.begin("apply", "--yes", "--json")
        both = {"w1": "unhealthy", "e1": "unhealthy"}
        wait_until(lambda: fleet.statuses(*both) == both, "the deaf and the dumb are missed", paced.unhealthy_max_s)
        if SOAK:
            fleet.outcome(applying, RECEIPTS_S + 10).refused(UNREACHABLE, "receipts_missing")
    healed_s = wait_until(lambda: set(fleet.statuses("w1", "e1").values()) == {"healthy"}, "both are back")
    print(f"one way: healthy {healed_s:.1f} s after healing")
    if not SOAK:
        _check_apply(fleet.outcome(applying), "w1")
    ended, in_time = hopeless.result(CALL_S)
    assert "hub1" in ended.refused(UNREACHABLE, "receipts_missing")["message"]
    assert in_time
    fleet.made.lab("start", "hub1").ok()
    wait_until(fleet.agree, "everybody accepted what is applied", AGREED_S_MAX)
    assert fleet.stray_commands() == []
    fleet.check_audits()


def _apply_to_w1(fleet: FaultyFleet, mark: str, inside: bool) -> float:
    """From the host, which has good wires, or from the machine whose wires are bad."""
    fleet.service("book", "w1", mark)
    watch = Stopwatch()
    words = ("apply", "--yes", "--json")
    done = fleet.inside("w1", "holdfast", *words) if inside else fleet.run(*words)
    in_time = watch.within(RECEIPTS_S + 35)
    if not inside or done.code == 0 or done.error["code"] == "receipts_missing":
        _check_apply(done, "w1")
    else:
        done.refused(UNREACHABLE)
    assert in_time, "longer than an answer and the receipts may take together"
    return watch.wall_s


# ---- no hub


def test_without_a_hub_nothing_changes_and_its_return_alarms_nobody(fleet: FaultyFleet, paced: Pace) -> None:
    """I-01, M-52, M-75: agents neither restart nor act; the hub that comes back waits before it misses anybody."""
    fleet.settle("hub1", "w1", "e1")
    before = fleet.lives()
    heard = len(fleet.ear.heard)
    fleet.made.lab("kill", "hub").ok()
    died_s = time.monotonic()
    assert fleet.run("status").code == UNREACHABLE
    time.sleep(max(0.0, died_s + paced.dead_s - 3 - time.monotonic()))
    assert fleet.lives() == before, "an agent without its hub goes on as it was"
    time.sleep(max(0.0, died_s + paced.dead_s - time.monotonic()))
    answers = _restarted_hub(fleet)
    back_s = wait_until(fleet.are_healthy, "everybody is back", paced.back_max_s)
    wait_until(lambda: bool(fleet.run("node", "list", "--json").ok().json["ready"]), "alarms are on again")
    print(f"dead for {paced.dead_s:.0f} s, answered after {answers}, all healthy {back_s:.1f} s later")
    assert fleet.lives() == before
    fleet.check_audits()
    assert fleet.ear.heard[heard:] == [], "a storm of alerts"


# ---- the hub dies while people apply (R03)


@dataclass(frozen=True)
class Attempt:
    mark: str
    outcome: Outcome


def test_r03_no_apply_that_succeeded_is_lost_however_often_the_hub_is_killed(fleet: FaultyFleet, paced: Pace) -> None:
    """R03, I-03: what exited 0 is in the history, in its place; of the rest, everything or nothing is."""
    dice = random.Random(SEED)
    heard = len(fleet.ear.heard)
    fleet.service("book", "w1", "r03")
    start = fleet.apply().ok().json["applied"]
    before = {node: life["pid"] for node, life in fleet.lives().items()}
    begun, good, over = threading.Event(), threading.Event(), threading.Event()

    def keep_applying() -> list[Attempt]:
        done: list[Attempt] = []
        while not over.is_set() or len(done) < APPLIES_MIN:
            mark = f"r03-{paced.fast}-{len(done)}"
            fleet.service("book", "w1", mark)
            begun.set()
            done.append(Attempt(mark, fleet.apply()))
            if done[-1].outcome.code == 0:
                good.set()
            else:
                time.sleep(0.2)  # as anybody would before trying again
        return done

    answers_s: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        client = pool.submit(keep_applying)
        try:
            for at in range(KILLS):
                good.clear()
                assert at % 2 or good.wait(PATIENCE_S), "nothing can be applied any more"
                begun.clear()
                assert begun.wait(PATIENCE_S)
                time.sleep(dice.uniform(0.05, 0.3))  # an apply takes a quarter of a second
                os.kill(fleet.pid("hub1", "hub"), signal.SIGKILL)
                time.sleep(dice.uniform(0.5, 1.0))
                answers_s.append(_restarted_hub(fleet).wall_s)
        finally:
            over.set()
        attempts = client.result(300)
    print(f"answers after {max(answers_s):.2f} s at most; {_told(attempts)}")
    assert len(attempts) >= APPLIES_MIN and {a.outcome.code for a in attempts} <= {0, UNREACHABLE}
    _check_history(fleet, start["number"], attempts)
    assert {node: life["pid"] for node, life in fleet.lives().items()} == before
    wait_until(fleet.agree, "every node accepted the newest revision", AGREED_S_MAX)
    assert fleet.inside("hub1", "holdfast", "hub", "check", "--state-dir", "/var/lib/holdfast/hub").code == 0
    fleet.check_audits()
    assert fleet.ear.heard[heard:] == [], "a hub that was away misses nobody"


def _restarted_hub(fleet: FaultyFleet) -> Stopwatch:
    """The hub answers in its time (R03)."""
    watch = Stopwatch()
    fleet.made.lab("start", "hub").ok()
    wait_until(lambda: fleet.run("status", "--json").code == 0, "the hub answers")
    assert watch.within(ANSWERS_S_MAX), watch
    return watch


def _told(attempts: list[Attempt]) -> str:
    good = sum(attempt.outcome.code == 0 for attempt in attempts)
    return f"{len(attempts)} applies, {good} succeeded"


def _check_history(fleet: FaultyFleet, number: int, attempts: list[Attempt]) -> None:
    """Walks the attempts beside the history: each success stands on what was committed right before it."""
    found = fleet.run("history", "--json", "--limit", "1000").ok().json["revisions"]
    digests = {revision["number"]: revision["digest"] for revision in found}
    assert sorted(digests) == list(range(1, len(digests) + 1))
    mark, unsure = "r03", []
    for attempt in attempts:
        if attempt.outcome.code != 0:
            attempt.outcome.refused(UNREACHABLE)
            unsure.append(attempt.mark)
            continue
        said = attempt.outcome.json
        base, applied = said["base"]["number"], said["applied"]
        assert digests.get(applied["number"]) == applied["digest"], f"{attempt.mark} exited 0 and is lost"
        assert applied["number"] == base + 1 and 0 <= base - number <= len(unsure)
        (change,) = said["changes"][0]["fields"]
        assert change["after"] == attempt.mark
        assert change["before"] in (unsure if base > number else [mark]), "it stands on something else"
        number, mark, unsure = applied["number"], attempt.mark, []
    assert max(digests) - number <= len(unsure)


# ---- nodes that tell of the hub (X17)


@pytest.mark.parametrize("paced", [FAST], indirect=True, ids=["fast"])
def test_x17_a_node_tells_people_itself_that_the_hub_is_dead_and_that_it_is_back(
    fleet: FaultyFleet, paced: Pace
) -> None:
    """Its own Apprise process posts to an address that only this node can open; the hub never posts there."""
    (fleet.made.home / "url").write_text(f"{fleet.ear.url}only-w1-knows")
    fleet_file = fleet.made.fleet / "fleet.toml"
    target = '\n[[alerts]]\nname = "own"\nsecret = "own-url"\nnodes = ["w1"]\nafter = "6s"\n'
    fleet_file.write_text(fleet_file.read_text() + target)
    fleet.run("secret", "set", "own-url", "--file", str(fleet.made.home / "url")).ok()
    fleet.apply().ok()
    wait_until(lambda: fleet.nodes()["w1"]["accepted"] == fleet.head(), "w1 has the target")
    time.sleep(3)  # it has heard the hub since
    watch = Stopwatch()
    fleet.made.lab("kill", "hub").ok()
    wait_until(lambda: fleet.ear.about("w1")[-1:] == ["hub_silent"], "w1 tells that the hub is dead")
    print(f"told {watch.wall_s:.1f} s after the hub died")
    assert watch.wall_s >= 3, "not before its time"
    fleet.made.lab("start", "hub").ok()
    wait_until(lambda: "hub_heard" in fleet.ear.about("w1"), "w1 tells that the hub is back")
    told = [code for code, _ in fleet.ear.heard if code.startswith("hub_")]
    assert told == ["hub_silent", "hub_heard"], "only w1 tells, and once"
    state = next(fleet.made.dir.rglob("hub.key")).parent
    kept = {path.name: path.read_bytes() for path in state.iterdir() if path.is_file()}
    assert any(b"own-url" in content for content in kept.values()), "the hub has the target"
    assert not any(b"only-w1-knows" in content for content in kept.values()), "and cannot know its address"


# ---- revocation


@pytest.mark.parametrize("paced", [FAST], indirect=True, ids=["fast"])
def test_a_revoked_node_is_shut_out_at_once_and_the_others_go_on(fleet: FaultyFleet, paced: Pace) -> None:
    """D-04, W8: within 60 s its word counts for nothing, and that it tried stands in the audit log.

    The last of all, at one pace only: the node stays shut out.
    """
    others = {node: fleet.life(node)["pid"] for node in ("hub1", "e1")}
    fleet.run("node", "revoke", "w1", "--yes").ok()
    began_s = time.monotonic()
    wait_until(lambda: _denied(fleet), "its next check-in is refused, and that is written down")
    print(f"refused {time.monotonic() - began_s:.2f} s after the revocation")
    assert fleet.nodes()["w1"]["revoked"] and fleet.nodes()["w1"]["status"] != "healthy"
    assert {fleet.status("hub1"), fleet.status("e1")} == {"healthy"}
    assert {node: fleet.life(node)["pid"] for node in others} == others
    fleet.run("audit", "--verify").ok()


def _denied(fleet: FaultyFleet) -> bool:
    entries = fleet.run("audit", "--json", "-n", "20").ok().json["entries"]
    return any(entry["result"] == "denied" and "w1" in entry["target"] + entry["principal"] for entry in entries)
