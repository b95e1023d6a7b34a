"""A public service is updated while it is used: nobody outside notices, whatever becomes of the update (issue 5).

Two kinds of clients ask all the time through the edge: ours, who know of every single request and verify the edge's
certificate, and wrk, which everybody knows.
"""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.fleets.lab_pasting import pastes, runs
from tests.fleets.load import Tally, Visitors
from tests.fleets.traffic_scene import TrafficScene
from tests.fleets.waiting import Stopwatch
from tests.lab.product import Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

UNKNOWN = "hello@sha256:" + "0" * 64
RATE_MIN = 200


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene) -> TrafficScene:
    traffic_lab.hello("shop", "hello:1")
    traffic_lab.deploy("shop").ok()
    return traffic_lab


def test_a_mistyped_hostname_is_found_in_the_list(scene: TrafficScene) -> None:
    def typed(line: str) -> Outcome:
        return scene.run(*line.split()[1:])

    wrong = scene.run("edge", "status", "shp.example.test", "--json").refused(2, "not_applied")
    (listed,) = pastes("did you mean {}? public hostnames are: {}; holdfast edge list", [wrong["remedy"]], typed)
    assert "shop.example.test" in listed.ok().out
    assert "shop.example.test" in runs("holdfast edge status {}", ("shop.example.test",), typed).out


class Crowd:
    """Both kinds of clients at one public name, and what became of all their requests together."""

    def __init__(self, scene: TrafficScene, name: str) -> None:
        self.visitors: Visitors = scene.visitors(name, rate=150)
        self._wrk = scene.wrk(name, rate=300)
        self._stack = ExitStack()
        self._watch = Stopwatch()
        self._stretch = 1.0

    def __enter__(self) -> Crowd:
        self._stack.enter_context(self.visitors.at_work())
        self._stack.enter_context(self._wrk.at_work())
        self.visitors.await_visits(50)
        return self

    def __exit__(self, *_: object) -> None:
        self.visitors.await_visits(50)  # also what is asked after the last change counts
        self._stretch = self._watch.stretch
        self._stack.close()

    @property
    def tallies(self) -> list[Tally]:
        assert self._wrk.tally is not None
        return [self.visitors.tally, self._wrk.tally]

    @property
    def failed(self) -> list[object]:
        return [tally.failed for tally in self.tallies if tally.failed] + list(self.visitors.failures[:5])

    @property
    def rate(self) -> float:
        """As it would have been without other work on this machine."""
        return sum(tally.rate for tally in self.tallies) * self._stretch

    def versions(self) -> list[str]:
        """In the order they were first told, each time the answer changed."""
        told: list[str] = []
        for visit in sorted(self.visitors.visits, key=lambda visit: visit.began_s):
            version = str(json.loads(visit.body)["version"]) if visit.body else ""
            if version and (not told or told[-1] != version):
                told.append(version)
        return told


def test_five_updates_in_a_row_drop_no_request(scene: TrafficScene) -> None:
    """M-02, M-03, M-115, T-06 (4): each one is served by the time its command ends."""
    with Crowd(scene, "shop") as crowd:
        for image in ("hello:2", "hello:1", "hello:2", "hello:1", "hello:2"):
            scene.hello("shop", image)
            scene.deploy("shop").ok()
            crowd.visitors.await_answer(f'"version":"{image[-1]}"')
            assert scene.says("shop")["version"] == image[-1]
    assert crowd.failed == []
    assert crowd.rate >= RATE_MIN, crowd.tallies
    assert {"1", "2"} == set(crowd.versions())


@pytest.mark.parametrize(
    ("image", "step"),
    [(UNKNOWN, "pull"), ("hello:sick", "healthy"), ("hello:broken", "healthy")],
    ids=["no-such-image", "sick", "broken"],
)
def test_an_update_that_fails_drops_no_request_either(scene: TrafficScene, image: str, step: str) -> None:
    """M-46, M-83, I-21: the step is named, and the public name leads to the version before all the time."""
    scene.hello("shop", "hello:1")
    scene.deploy("shop").ok()
    before = scene.says("shop")
    with Crowd(scene, "shop") as crowd:
        scene.hello("shop", image, start_period="2s")
        failed = scene.deploy("shop")
        assert failed.code == 1 and step in failed.err + failed.out, failed
        crowd.visitors.await_answer('"version":"1"')
    assert crowd.failed == [] and crowd.versions() == ["1"]
    assert scene.says("shop") == before, "the same container"
    scene.run("rollback", "--yes").ok()


def test_a_restart_of_the_agents_in_the_midst_of_an_update_drops_nothing(scene: TrafficScene) -> None:
    """I-01, M-13: the proxies outlive their agents, and who comes back goes on where it stopped."""
    scene.hello("shop", "hello:1")
    scene.deploy("shop").ok()
    with Crowd(scene, "shop") as crowd:
        scene.hello("shop", "hello:2")
        update = scene.begin("deploy", "shop", "--yes")
        try:
            for node in ("w1", "e1"):
                scene.made.lab("kill", node, "--agent").ok()
            crowd.visitors.await_visits(50)
            for node in ("w1", "e1"):
                scene.made.lab("start", node).ok()
            assert update.wait(180) == 0
        finally:
            update.kill()
            update.wait(60)
        crowd.visitors.await_answer('"version":"2"')
    assert crowd.failed == []
