"""Ways to be not green: no command calls such a service well, and the truth is shown within 15 seconds."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.fleets.traffic_scene import TRUTH_S, TrafficScene
from tests.fleets.waiting import Stopwatch, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


SHELL = "ARG REGISTRY\nFROM $REGISTRY/hello:1\nENTRYPOINT []\n"


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene, tmp_path_factory: pytest.TempPathFactory) -> TrafficScene:
    folder = tmp_path_factory.mktemp("shell")
    (folder / "Containerfile").write_text(SHELL)
    traffic_lab.made.lab("image", "build", str(folder), "--name", "shell:1").ok()
    return traffic_lab


def service(scene: TrafficScene, script: str, *more: str, port: int | None = None) -> str:
    """Without a check; with a public route if there is a port."""
    image, command = f"{scene.registry}/shell:1", json.dumps(["sh", "-c", script])
    lines = ['node = "w1"', "[[components]]", 'name = "web"', f'image = "{image}"', f"cmd = {command}", *more]
    route = ["[[components.routes]]", 'name = "http"', f"port = {port}", "public = true"] if port else []
    return "\n".join([*lines, *route]) + "\n"


def row(scene: TrafficScene, name: str) -> dict[str, Any]:
    (found,) = scene.run("ps", name, "--json").ok().json["services"]
    assert isinstance(found, dict)
    return found


def findings(scene: TrafficScene, name: str) -> dict[str, str]:
    said = scene.run("status", "--json").ok().json["findings"]
    return {one["code"]: one["message"] for one in said if one["address"] == f"service.{name}"}


def edge_said(scene: TrafficScene, name: str) -> str:
    """What keeps the edge from it, by its own check."""
    (found,) = scene.run("edge", "status", f"{name}.example.test", "--json").json["edges"]
    return "" if found["backend_reachable"] else str(found["message"])


def within(check: Callable[[], bool], what: str) -> None:
    watch = Stopwatch()
    wait_until(check, what)
    assert watch.within(TRUTH_S), f"{what}: {watch}"


def test_a_route_on_whose_port_nothing_listens_is_not_green_n15(scene: TrafficScene) -> None:
    scene.write("mute", service(scene, "echo I am here; sleep 1000", port=9999))
    for _ in range(2):  # also the second time
        refused = scene.deploy("mute", "--json")
        assert refused.code == 1 and refused.json["success"] is False
        assert "nothing listens there" in refused.err and "https://mute" not in refused.out + refused.err
    shown = scene.run("edge", "status", "mute.example.test", "--json").json["edges"][0]
    assert shown["status"] != "live" and row(scene, "mute")["urls"] == []
    scene.gone("mute")


def test_a_crash_loop_is_not_green_n16(scene: TrafficScene) -> None:
    scene.write("loop", service(scene, "echo no such table; sleep 0.4; exit 7"))
    first = scene.deploy("loop")
    assert first.code == 1 and "restarts" in first.err and "exit 7" in first.err and "no such table" in first.err
    assert scene.deploy("loop").code == 1, "the second time too"
    scene.gone("loop")


def test_a_slower_loop_and_one_without_memory_are_restarting_n16_n20(scene: TrafficScene) -> None:
    greedy = "sleep 2; x=a; while :; do x=$x$x; done"
    scene.write("greedy", service(scene, greedy, 'resources = { memory = "24Mi" }'))
    scene.deploy("greedy", "--detach").ok()
    within(lambda: row(scene, "greedy")["state"] == "restarting", "it is called restarting")
    found = row(scene, "greedy")
    assert found["status"] == "unhealthy" and found["restarts"] >= 2 and found["last_exit"] == "137 oom"
    wait_until(lambda: "crash_loop" in findings(scene, "greedy"), "it is told")
    assert "last exit 137 oom" in findings(scene, "greedy")["crash_loop"]
    again = scene.deploy("greedy")
    assert again.code == 1 and "web is restarting" in again.err
    shown = scene.run("ps", "greedy").ok().out
    assert "RESTARTS" in shown and "137 oom" in shown and "restarting" in shown
    scene.gone("greedy")


def test_a_service_that_is_stopped_or_hangs_is_not_live_n17(scene: TrafficScene) -> None:
    scene.hello("quiet", "hello:1")
    assert "https://quiet.example.test/" in scene.deploy("quiet").ok().err
    scene.write("half-edited", "name = \n")
    scene.run("stop", "quiet", "--yes").ok()  # N30: no file is in its way
    scene.gone("half-edited")
    within(lambda: row(scene, "quiet")["state"] == "held", "it is called held")
    assert row(scene, "quiet")["urls"] == []
    status = scene.run("edge", "status", "quiet.example.test", "--json")
    assert status.code == 1 and status.json["edges"][0]["status"] == "held"
    wait_until(lambda: "no container that answers" in edge_said(scene, "quiet"), "the edge was told itself")
    held = scene.deploy("quiet")
    assert "https://quiet.example.test/" not in held.out + held.err
    scene.run("start", "quiet", "--yes").ok()
    wait_until(lambda: row(scene, "quiet")["state"] == "running" and scene.answers("quiet"), "it serves again")
    pid = _host_pid(scene, row(scene, "quiet")["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        within(lambda: row(scene, "quiet")["state"] == "unhealthy", "it is called unhealthy")
        assert scene.run("edge", "list", "--json").ok().json["edges"]
        assert scene.run("edge", "status", "quiet.example.test", "--json").json["edges"][0]["status"] != "live"
        assert scene.deploy("quiet").code == 1
        within(lambda: "no container that answers" in edge_said(scene, "quiet"), "the edge was told itself")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: row(scene, "quiet")["state"] == "running" and not edge_said(scene, "quiet"), "it recovers")
    scene.gone("quiet")


def test_a_service_without_a_check_that_hangs_is_not_live_t11(scene: TrafficScene) -> None:
    """The kernel still connects; that the process accepts nothing is seen."""
    image = f"{scene.registry}/hello:1"
    route = ["[[components.routes]]", 'name = "http"', "port = 8080", "public = true"]
    lines = ['node = "w1"', "[[components]]", 'name = "web"', f'image = "{image}"', *route]
    scene.write("frozen", "\n".join(lines) + "\n")
    assert "https://frozen.example.test/" in scene.deploy("frozen").ok().err
    pid = _host_pid(scene, row(scene, "frozen")["pid"])
    time.sleep(12)  # it is asked less often by now: the longest time to the truth
    os.kill(pid, signal.SIGSTOP)
    try:
        watch = Stopwatch()
        wait_until(lambda: row(scene, "frozen")["state"] == "unhealthy", "it is called unhealthy")
        wait_until(lambda: edge_status(scene, "frozen") != "live", "the edge says so")
        assert watch.within(TRUTH_S), watch
        assert scene.run("status", "--check").code == 1 and "service_unhealthy" in findings(scene, "frozen")
        wait_until(lambda: "no container that answers" in edge_said(scene, "frozen"), "the edge was told itself")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: row(scene, "frozen")["state"] == "running" and not edge_said(scene, "frozen"), "it recovers")
    scene.gone("frozen")


def edge_status(scene: TrafficScene, name: str) -> str:
    (found,) = scene.run("edge", "status", f"{name}.example.test", "--json").json["edges"]
    return str(found["status"])


def _host_pid(scene: TrafficScene, pid: int) -> int:
    """The node has a pid namespace of its own."""
    space = os.readlink(f"/proc/{scene.pids('w1')['node']}/ns/pid")
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, StopIteration), open(f"/proc/{name}/status", encoding="ascii") as file:
            numbers = next(line for line in file if line.startswith("NSpid:")).split()[1:]
            parents = {os.readlink(f"/proc/{name}/ns/pid_for_children"), os.readlink(f"/proc/{name}/ns/pid")}
            if str(pid) in numbers[1:] and "hello" in os.readlink(f"/proc/{name}/exe") and parents:
                return int(name)
    raise AssertionError(f"no process {pid} in {space}")
