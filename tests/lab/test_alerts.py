"""Alerts of real nodes (issue 14): a small disk fills up, of a node and of the hub; a clock is off; the agent of an
edge is dead; a crash loop; the hub's log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.faked_time import FakedTime
from tests.fleets.traffic_scene import EDGE, TrafficScene
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

DISK = "disk.w1.data"
LEDGER = "/var/lib/holdfast/hub"
DISK_BYTES = 64 << 20
OFF_S = 45


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene) -> TrafficScene:
    traffic_lab.hello("alarmed", "hello:1")
    traffic_lab.deploy("alarmed").ok()
    return traffic_lab


def heard(scene: TrafficScene, address: str) -> list[str]:
    return [code for code, about in list(scene.ear.heard) if about == address]


def events(scene: TrafficScene, code: str, address: str) -> list[dict[str, Any]]:
    """Of the hub's log: the lines that are JSON."""
    lines = (scene.made.dir / "logs" / "hub.log").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [one for one in found if one.get("code") == code and one.get("address") == address]


def findings(scene: TrafficScene, address: str) -> dict[str, str]:
    said = scene.run("status", "--json").ok().json["findings"]
    return {one["code"]: one["message"] for one in said if one["address"] == address}


@contextmanager
def small_disk(scene: TrafficScene) -> Iterator[None]:
    """4 MiB and 64 inodes in the place of w1's data directory."""
    scene.inside("w1", "mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=64", "tmpfs", "/srv")
    try:
        yield
    finally:
        scene.inside("w1", "umount", "/srv")


def test_a_small_disk_that_fills_up_is_one_alarm_and_one_recovery(scene: TrafficScene) -> None:
    with small_disk(scene):
        scene.inside("w1", "sh", "-c", "head -c 3900000 /dev/zero > /srv/big; touch $(seq -f /srv/small%g 60)")
        wait_until(lambda: heard(scene, DISK) == ["disk_filling"], "people are told")
        message = findings(scene, DISK)["disk_filling"]
        assert "w1: the disk of /srv is filling up: " in message and "of 4.0 MiB" in message and "inodes" in message
        scene.inside("w1", "sh", "-c", "rm /srv/*")
        wait_until(lambda: heard(scene, DISK) == ["disk_filling", "disk_has_room"], "people are told that it is over")
        assert findings(scene, DISK) == {}
    wait_until(lambda: len(events(scene, "disk_filling", DISK)) == 2, "its end is in the hub's log")
    assert [one["event"] for one in events(scene, "disk_filling", DISK)] == ["finding", "finding_gone"]


@contextmanager
def hub_on_a_full_disk(scene: TrafficScene) -> Iterator[None]:
    """Its state directory is moved to one of which a twentieth is free, and back."""
    small = f"{LEDGER}.small"
    scene.made.lab("kill", "hub").ok()
    mount = f"mkdir {small}; mount -t tmpfs -o size={DISK_BYTES},mode=700 tmpfs {small}; cp -a {LEDGER}/. {small}"
    scene.inside("hub1", "sh", "-ec", f"{mount}; mount --move {small} {LEDGER}")
    free = int(scene.inside("hub1", "df", "--output=avail", "--block-size=1", LEDGER).split()[-1])
    scene.inside("hub1", "sh", "-c", f"head -c {free - DISK_BYTES // 20} /dev/zero > {LEDGER}/big")
    scene.made.lab("start", "hub").ok()
    try:
        yield
    finally:
        scene.made.lab("kill", "hub").ok()
        back = f"cp -a {LEDGER}/. {small}; umount {LEDGER}; rm -r {LEDGER}; mv {small} {LEDGER}"
        scene.inside("hub1", "sh", "-ec", back)
        scene.made.lab("start", "hub").ok()


def test_the_disk_of_the_hub_that_fills_up_is_one_alarm_and_one_recovery(scene: TrafficScene) -> None:
    with hub_on_a_full_disk(scene):
        wait_until(lambda: heard(scene, "hub") == ["disk_filling"], "people are told")
        message = findings(scene, "hub")["disk_filling"]
        assert f"hub: the disk of {LEDGER} is filling up: 5% free" in message and "of 64.0 MiB" in message
        scene.inside("hub1", "rm", f"{LEDGER}/big")
        wait_until(lambda: heard(scene, "hub") == ["disk_filling", "disk_has_room"], "people are told that it is over")
        assert findings(scene, "hub") == {}


def test_a_clock_that_is_off_is_one_alarm_and_one_recovery_x23(scene: TrafficScene, tmp_path: Path) -> None:
    """The agent of w1 is told another time than the hub."""
    clock = FakedTime(tmp_path / "time", 0)
    clock.is_ahead(OFF_S)
    scene.made.lab("kill", "w1", "--agent").ok()
    try:
        replace(scene.made, python=str(clock.python)).lab("start", "w1").ok()

        def told() -> list[str]:
            return [code for code in heard(scene, "node.w1") if code.startswith("clock_")]

        wait_until(lambda: told() == ["clock_skew"], "people are told")
        assert "clock" in findings(scene, "node.w1")["clock_skew"]
        clock.is_ahead(0)
        wait_until(lambda: told() == ["clock_skew", "clock_right"], "people are told that it is over")
        wait_until(lambda: "clock_skew" not in findings(scene, "node.w1"), "nor is it shown")
    finally:
        scene.made.lab("kill", "w1", "--agent").ok()
        scene.made.lab("start", "w1").ok()


def test_an_edge_whose_agent_is_dead_is_one_alarm_that_names_its_hostnames(scene: TrafficScene) -> None:
    """Its proxy serves on."""
    place, before = f"node.{EDGE}", len(scene.ear.about(EDGE))
    logged = len(events(scene, "node_unhealthy", place))
    scene.made.lab("kill", EDGE, "--agent").ok()
    try:
        wait_until(lambda: scene.ear.about(EDGE)[before:] == ["node_silent"], "people are told")
        assert "it is the edge of alarmed.example.test" in findings(scene, place)["node_unhealthy"]
        assert scene.answers("alarmed")
        wait_until(lambda: len(events(scene, "node_unhealthy", place)) == logged + 1, "it is in the hub's log")
    finally:
        scene.made.lab("start", EDGE).ok()
    wait_until(
        lambda: scene.ear.about(EDGE)[before:] == ["node_silent", "node_back"], "people are told that it is over"
    )
    wait_until(lambda: len(events(scene, "node_unhealthy", place)) == logged + 2, "its end, too")
    first = events(scene, "node_unhealthy", place)[logged]
    assert set(first) == {"event", "at_s", "code", "level", "address", "message", "remedy"}


def test_a_crash_loop_is_one_alarm_and_one_recovery_n16(scene: TrafficScene) -> None:
    """A service that served and then keeps ending: it is told once, and not as unhealthy too."""
    place = "service.looping"
    scene.hello("looping", "hello:1")
    scene.deploy("looping").ok()
    kill = "for pid in $(podman ps --filter label=holdfast.service=looping --format '{{.Pid}}'); do kill -9 $pid; done"
    for _ in range(6):
        scene.inside("w1", "sh", "-c", f"{kill}; sleep 2")
        if "crash_loop" in heard(scene, place):
            break
    wait_until(lambda: "crash_loop" in heard(scene, place), "people are told")
    assert heard(scene, place) == ["crash_loop"]
    scene.hello("looping", "hello:2")
    scene.deploy("looping").ok()
    wait_until(lambda: heard(scene, place) == ["crash_loop", "crash_loop_over"], "people are told that it is over")
    scene.gone("looping")
