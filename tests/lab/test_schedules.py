"""Schedules on real podman in a lab: runs, orders, results, and an agent that is killed around them.

What ran is told by podman's own events and by lines that the runs write into a volume.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import DeployScene, EventKiller, Meddler, stamp, web
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600 if SOAK else 600)]

KILLS = 20 if SOAK else 4
MINUTES = 5 if SOAK else 1
MINUTE_S = 60.0
SERVICE = "timed"
VOLUME = '[[components.volumes]]\nname = "book"\npath = "/data"\nprotect = "none"\n'


def schedule(name: str, cmd: str, cron: str = "0 0 1 1 *", **more: object) -> str:
    keys = {"name": name, "component": "web", "cron": cron, "cmd": ["sh", "-c", cmd], **more}
    return "[[schedule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


VOID = (("failed", "interrupted"), ("refused", "other_life"))
WRITES = "echo ran >> /data/runs; echo a line of the run"


@pytest.fixture(scope="module")
def scene(deploy_lab: DeployScene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployScene]:
    text = f'FROM {deploy_lab.image("hello:1")}\nENTRYPOINT []\nCMD ["/bin/hello"]\n'
    deploy_lab.build(tmp_path_factory.mktemp("job"), "job:1", text)
    deploy_lab.write(
        SERVICE,
        web(deploy_lab.image("job:1"))
        + VOLUME
        + schedule("tick", WRITES, "* * * * *")
        + schedule("now", f"{WRITES}; sleep 1")
        + schedule("bad", "echo it broke >&2; exit 3", retries=1)
        + schedule("slow", "trap : TERM; sleep 600 & wait", timeout="2s"),
    )
    deploy_lab.deploy(SERVICE).ok()
    yield deploy_lab
    deploy_lab.gone(SERVICE)
    deploy_lab.run("apply", "--yes", "--allow-removals", "1").ok()
    assert deploy_lab.foreign_untouched()


def written(scene: DeployScene) -> int:
    """How many runs wrote their line."""
    path = scene.data(SERVICE, "book") / "runs"
    return len(path.read_text().split()) if path.exists() else 0


def at_rest(scene: DeployScene) -> tuple[float, int]:
    """A moment at which no run was under way and none began for a while, and how many had written their line by then.

    A minute may begin at any time: a run that started before and writes after would be counted on one side only."""
    found: list[tuple[float, int]] = []

    def looked() -> bool:
        now_s = time.time()
        is_idle = not any("_run-" in one.name for one in scene.containers())
        found.append((now_s, written(scene)))
        return is_idle and not (starts(scene, now_s, "tick") or starts(scene, now_s, "now"))

    wait_until(looked, "no run is under way")
    return found[-1]


def await_lines(scene: DeployScene, since_s: float, before: int) -> None:
    """Each run that began since then wrote its line, and no other did; a run may begin at this very moment."""

    def looked() -> bool:
        begun = sum((starts(scene, since_s, "tick") + starts(scene, since_s, "now")).values())
        return written(scene) - before == begun

    wait_until(looked, lambda: (written(scene) - before, starts(scene, since_s, "tick"), starts(scene, since_s, "now")))


def starts(scene: DeployScene, since_s: float, name: str) -> Counter[str]:
    said = scene.podman("events", "--stream=false", "--since", str(int(since_s)), "--format", "json")
    found = [json.loads(line) for line in said.splitlines() if line]
    recent = [each for each in found if each["Status"] == "start" and stamp(each["Time"]) >= since_s]
    return Counter(each["Name"] for each in recent if f"_run-{name}-" in each["Name"])


def state(scene: DeployScene, name: str) -> dict[str, object]:
    listed = scene.run("schedule", "list", SERVICE, "--json").ok().json["schedules"]
    (found,) = [each for each in listed if each["name"] == name]
    return dict(found)


def test_a_run_by_order_shows_its_end_and_its_lines(scene: DeployScene) -> None:
    said = scene.run("schedule", "run", SERVICE, "now", "--json").ok().json
    assert said["last"]["exit_code"] == 0 and said["last"]["outcome"] == "done" and said["last"]["duration_s"] >= 1
    assert said["lines"] == ["a line of the run"]
    assert "a line of the run" in scene.run("schedule", "logs", SERVICE, "now").ok().out
    found = state(scene, "now")
    assert found["verified"] and found["next"] and isinstance(found["last"], dict) and found["last"]["exit_code"] == 0
    rows = [each for each in scene.run("ps", "--json").ok().json["services"] if each["name"] == SERVICE]
    assert [row["component"] for row in rows] == ["web"], "a run is no container of the service"
    wait_until(lambda: not any("_run-now" in one.name for one in scene.containers()), "its container is gone")


def test_a_run_that_fails_is_tried_again_and_shown_as_a_finding_until_one_is_done(scene: DeployScene) -> None:
    failed = scene.run("schedule", "run", SERVICE, "bad", "--json")
    assert failed.code == 1 and "run_failed" in failed.err
    assert state(scene, "bad")["last"]["attempts"] == 2  # type: ignore[index]
    found = scene.findings("schedule_failed")
    assert [one["address"] for one in found] == [f"schedule.{SERVICE}.bad"], found
    (finding,) = found
    assert "it broke" in finding["message"]
    pasted = scene.run(*finding["remedy"].removeprefix("holdfast ").split())
    assert pasted.ok().out.strip() == "it broke"


def test_a_run_that_takes_too_long_is_ended(scene: DeployScene) -> None:
    assert scene.run("schedule", "run", SERVICE, "slow").code == 1
    assert state(scene, "slow")["last"]["outcome"] == "timed_out"  # type: ignore[index]
    wait_until(lambda: not any("_run-slow" in one.name for one in scene.containers()), "its container is gone")


def test_a_minute_runs_once_whatever_happens_to_the_agent_and_the_hub(scene: DeployScene) -> None:
    """The agent is killed around every minute, and the hub is dead meanwhile."""
    chance, (begun_s, before) = random.Random(11), at_rest(scene)
    scene.made.lab("kill", "hub").ok()
    try:
        for _ in range(MINUTES):
            at_s = (time.time() // MINUTE_S + 1) * MINUTE_S
            while time.time() < at_s - 0.5 + chance.random():
                time.sleep(0.05)
            scene.kill_agent()
            time.sleep(chance.random() * 2)
            scene.start_agent()
            wait_until(partial(has_run, scene, begun_s, at_s), "it ran")
    finally:
        scene.made.lab("start", "hub").ok()
    ran = starts(scene, begun_s, "tick")
    minutes = sorted(int(name.split("-")[-2], 16) for name in ran)
    assert set(ran.values()) == {1} and minutes == list(range(minutes[0], minutes[-1] + 1, 60))
    wait_until(lambda: state(scene, "tick")["last"] is not None and not state(scene, "tick")["running"], "it is over")
    assert state(scene, "tick")["missed"] == 0
    await_lines(scene, begun_s, before)


@pytest.mark.parametrize("n", range(1, KILLS + 1))
def test_an_agent_killed_at_any_step_of_a_run_begins_none_twice_and_loses_none(scene: DeployScene, n: int) -> None:
    """At the n-th flush, and at the n-th thing that podman does."""
    for fault in (scene.meddled(f"fdatasync:signal=SIGKILL:when={n}"), scene.killing_at_event(n)):
        begun_s, before = at_rest(scene)
        with fault as killer:
            scene.run("schedule", "run", SERVICE, "now", "--detach").ok()
            wait_until(partial(is_killed_or_over, scene, killer, begun_s), "killed, or over")
        if killer.has_killed():  # from here on it cannot be hit any more
            scene.start_agent()
        wait_until(partial(is_ended, scene, begun_s), "it is over")
        ran = starts(scene, begun_s, "now")
        assert set(ran.values()) <= {1} and len(ran) <= 1
        if n == 1 and isinstance(killer, Meddler):
            assert not ran, "nothing begins before the journal has it"
        if not ran:  # the order is void, and only that: the same command begins a run
            assert killer.has_killed() and refusal(scene) in VOID, refusal(scene)
            scene.run("schedule", "run", SERVICE, "now").ok()
            assert list(starts(scene, begun_s, "now").values()) == [1]
        await_lines(scene, begun_s, before)


def has_run(scene: DeployScene, since_s: float, minute_s: float) -> bool:
    return any(f"-{int(minute_s):x}-" in name for name in starts(scene, since_s, "tick"))


def is_killed_or_over(scene: DeployScene, killer: Meddler | EventKiller, since_s: float) -> bool:
    return killer.has_killed() or is_over(scene, since_s)


def is_ended(scene: DeployScene, since_s: float) -> bool:
    return is_over(scene, since_s) or is_refused(scene, since_s)


def is_over(scene: DeployScene, since_s: float) -> bool:
    last = state(scene, "now")["last"]
    ran = starts(scene, since_s, "now")
    return bool(ran) and isinstance(last, dict) and not any("_run-now" in one.name for one in scene.containers())


def is_refused(scene: DeployScene, since_s: float) -> bool:
    """The order was interrupted before it began a run, or names a former start of the agent: its result says so."""
    return newest_order(scene)["state"] in ("failed", "refused") and not starts(scene, since_s, "now")


def refusal(scene: DeployScene) -> tuple[object, object]:
    newest = newest_order(scene)
    return newest["state"], newest["result"]["code"]


def newest_order(scene: DeployScene) -> dict[str, Any]:
    listed = scene.run("order", "list", "--json").ok().json["orders"]
    mine = [each for each in listed if each["action"] == "run-schedule"]
    return dict(max(mine, key=lambda each: each["counter"]))
