"""A public service leaves: backend first, then the edge's route, then the record; nobody answers in its name (I-19)."""

from __future__ import annotations

import time

import pytest

from tests.fleets.load import Visit
from tests.fleets.traffic_scene import EDGE, TRUTH_S, ZONE, TrafficScene, Watch
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WORKER = "w1"


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene) -> TrafficScene:
    return traffic_lab


PHASES = {"200": 0, "502": 1, "504": 1, "404": 2, "421": 2, "closed": 2}


def outcome(visit: Visit) -> str:
    """A status, or "closed" where the edge knows nobody of that name."""
    if visit.trouble.startswith("status "):
        return visit.trouble.removeprefix("status ")
    return "closed" if visit.trouble else "200"


def went_back(visits: list[Visit]) -> list[Visit]:
    """Who was told of an earlier phase although somebody before had been told of a later one."""
    ended = sorted((visit.began_s + visit.took_s, PHASES[outcome(visit)]) for visit in visits)
    found, reached = [], 0
    for visit in sorted(visits, key=lambda visit: visit.began_s):
        while ended and ended[0][0] < visit.began_s:
            reached = max(reached, ended.pop(0)[1])
        if PHASES[outcome(visit)] < reached:
            found.append(visit)
    return found


def test_an_undeployed_service_leaves_in_order(scene: TrafficScene) -> None:
    """I-19, M-85, M-86: backend, then the edge's route, then the record; nobody else ever answers in its name."""
    scene.hello("leaver", "hello:2")
    scene.deploy("leaver").ok()
    name, began_s = f"web.leaver.{ZONE}", time.time() - 1
    records = Watch(lambda: scene.asked(name))
    with scene.visitors("leaver", rate=100).at_work() as visitors, records.at_work():
        visitors.await_visits(20)
        scene.run("undeploy", "leaver", "--yes").ok()
        wait_until(lambda: scene.asked(name) == [], "the record is gone", TRUTH_S)
        visitors.await_visits(20)
    assert {outcome(visit) for visit in visitors.visits} <= PHASES.keys(), visitors.tally
    assert went_back(visitors.visits) == []
    assert {visit.body.partition(",")[0] for visit in visitors.visits if not visit.trouble} == {'{"version":"2"'}
    let_go = [visit for visit in visitors.visits if PHASES[outcome(visit)] == 2]
    ended_s = scene.ended_s(WORKER, "leaver", began_s)
    assert ended_s < min(visit.began_s + visit.took_s for visit in let_go), "the edge let go before the backend stopped"
    gone_s = records.first([])
    late = {outcome(visit) for visit in visitors.visits if visit.began_s > gone_s}
    assert {PHASES[each] for each in late} <= {2}, "the record went before the edge had let go"
    scene.gone("leaver")


def test_while_its_edge_cannot_let_go_the_name_says_502_and_its_record_stays(scene: TrafficScene) -> None:
    """M-86, I-19: the edge's agent is dead, its proxy is not. A new service on the same node inherits nothing."""
    scene.hello("stuck", "hello:2")
    scene.deploy("stuck").ok()
    name = f"web.stuck.{ZONE}"
    scene.made.lab("kill", EDGE, "--agent").ok()
    try:
        scene.run("undeploy", "stuck", "--yes", "--detach").ok()
        scene.gone("stuck")
        wait_until(lambda: scene.doors(WORKER, "stuck") == set(), "the worker stopped it")
        wait_until(lambda: scene.fetch("stuck")[0] == "502", "502", TRUTH_S)
        scene.hello("heir", "hello:1")
        scene.run("deploy", "heir", "--yes", "--detach").ok()
        wait_until(lambda: scene.doors(WORKER, "heir") != set(), "another service runs there")
        assert {scene.fetch("stuck")[0] for _ in range(20)} == {"502"}
        for node in (EDGE, WORKER, "hub1"):
            assert scene.asked(name, node) == [scene.addresses[WORKER]], f"{node} dropped the record, which goes last"
        route, record = Watch(lambda: scene.fetch("stuck")[0]), Watch(lambda: scene.asked(name, WORKER))
        with route.at_work(), record.at_work():
            scene.made.lab("start", EDGE).ok()
            wait_until(lambda: scene.fetch("stuck")[0] == "closed", "the edge let go")
            wait_until(lambda: scene.asked(name, WORKER) == [], "and then the record went")
        assert [seen for _, seen in route.changes if seen != "404"] == ["502", "closed"], route.changes
        late = route.begun_after(record.first([]))
        assert late <= {"404", "closed"}, "the record went before the edge had let go"
    finally:
        scene.made.lab("start", EDGE).ok()
    wait_until(lambda: scene.answers("heir"), "the heir has its own name")
    scene.run("undeploy", "heir", "--yes").ok()
    scene.gone("heir")
