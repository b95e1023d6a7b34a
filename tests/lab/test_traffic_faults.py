"""Proxies, DNS, nodes and daemons that fail under traffic: the truth is told within seconds, and then it is mended.

Traffic is what counts: nothing of ours that dies may take it along, except the proxy itself for the blink of an eye.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.traffic_scene import DOMAIN, EDGE, TRUTH_S, ZONE, TrafficScene, traffic_scene
from tests.fleets.truth import none_calls_it_well
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WORKER = "w1"
SHOP = f"shop.{DOMAIN}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrafficScene]:
    with traffic_scene(tmp_path_factory.mktemp("faults")) as made:
        made.hello("shop", "hello:1")
        made.deploy("shop").ok()
        yield made


@pytest.fixture
def scene(lab: TrafficScene) -> Iterator[TrafficScene]:
    """Every test ends with a public name that is well: by the client's word and by the product's."""
    yield lab
    wait_until(lambda: is_well(lab), "all is well again")


def is_well(scene: TrafficScene) -> bool:
    if not scene.answers("shop"):
        return False
    edge = scene.edge_status(SHOP)
    return edge["status"] == "live" and bool(edge["backend_reachable"] and edge["dns_agrees"])


def told(scene: TrafficScene, true: Callable[[dict[str, Any]], bool], why: str) -> None:
    """The product says so within the time in which a lie may last."""
    last: dict[str, Any] = {}

    def looked() -> bool:
        last.clear()
        last.update(scene.edge_status(SHOP))
        return true(last)

    try:
        wait_until(looked, why, TRUTH_S)
    except AssertionError as trouble:
        raise AssertionError(f"{trouble}; it said {last}") from None


# ---- proxies


@pytest.mark.parametrize("node", [EDGE, WORKER])
def test_a_killed_proxy_comes_back_with_all_its_routes(scene: TrafficScene, node: str) -> None:
    """M-116, T-29: another process, the same routes, within seconds; an alert is not needed for a blink."""
    before = scene.pids(node)
    os.kill(before["proxy"], signal.SIGKILL)
    wait_until(lambda: scene.answers("shop"), "it answers again", TRUTH_S)
    after = scene.pids(node)
    assert after["proxy"] != before["proxy"] and after["agent"] == before["agent"]
    assert scene.says("shop")["version"] == "1"


@pytest.mark.parametrize("node", [EDGE, WORKER])
def test_a_proxy_without_its_agent_is_restarted_all_the_same(scene: TrafficScene, node: str) -> None:
    """I-01: hub and agent may be gone for good; what serves goes on serving."""
    scene.made.lab("kill", node, "--agent").ok()
    try:
        os.kill(scene.pids(node)["proxy"], signal.SIGKILL)
        wait_until(lambda: scene.answers("shop"), "it answers again", TRUTH_S)
        assert "agent" not in scene.pids(node)
    finally:
        scene.made.lab("start", node).ok()


def test_a_proxy_whose_files_are_gone_gets_them_again(scene: TrafficScene) -> None:
    """M-07, M-116: nobody is disturbed meanwhile, and after that even a restart finds every route."""
    folder = proxy_folder(scene)
    lost = [path for path in folder.rglob("*") if path.suffix in (".json", ".pem")]
    assert lost
    with scene.visitors("shop").at_work() as visitors:
        visitors.await_visits(20)
        for path in lost:
            path.unlink()
        wait_until(lambda: all(path.exists() for path in lost), "they are there again", TRUTH_S)
        told(scene, lambda edge: edge["status"] == "live", "it is live")
        visitors.await_visits(20)
    assert visitors.failures == []
    os.kill(scene.pids(EDGE)["proxy"], signal.SIGKILL)
    wait_until(lambda: scene.answers("shop"), "it answers after a restart", TRUTH_S)


def test_a_proxy_whose_folders_are_gone_serves_again(scene: TrafficScene) -> None:
    """M-116: what it watched is no more, so that it has to be started anew."""
    folder = proxy_folder(scene)
    for path in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.rmtree(path)
    wait_until(lambda: any(folder.glob("*/*.json")), "its folders are there again", TRUTH_S)
    wait_until(lambda: scene.answers("shop"), "it answers", TRUTH_S)
    scene.hello("shop", "hello:2")
    scene.deploy("shop").ok()
    assert scene.says("shop")["version"] == "2", "and hears of what is new"
    scene.hello("shop", "hello:1")
    scene.deploy("shop").ok()


def proxy_folder(scene: TrafficScene) -> Path:
    folder = Path(scene.made.node(EDGE)["dirs"]["state"]) / "agent" / "proxy"
    assert folder.is_dir()
    return folder


def test_a_worker_s_proxy_that_hangs_is_told_of(scene: TrafficScene) -> None:
    """M-44, M-86: the edge does not reach its backend and says so; the client gets an error, no stale content."""
    frozen = scene.pids(WORKER)["proxy"]
    os.kill(frozen, signal.SIGSTOP)
    try:
        told(scene, lambda edge: not edge["backend_reachable"], "the backend does not answer")
        none_calls_it_well(scene, "shop", places=(EDGE, WORKER))
        assert scene.fetch("shop", 3)[0] in ("502", "504", "silent")
    finally:
        os.kill(frozen, signal.SIGCONT)
    told(scene, lambda edge: bool(edge["backend_reachable"]), "it answers again")


# ---- names, networks, power


def test_frozen_dns_is_told_of_and_traffic_goes_on(scene: TrafficScene) -> None:
    """D-27, T-11: the proxies dial addresses, so that names are needed by nobody once a route is set."""
    internal = f"web.shop.{ZONE}"
    frozen = scene.pids(EDGE)["dns"]

    def answers() -> bool:
        return scene.asked(internal) == [scene.addresses[WORKER]]

    with scene.visitors("shop").at_work() as visitors:
        os.kill(frozen, signal.SIGSTOP)
        try:
            assert scene.asked(internal) is None
            told(scene, lambda edge: not edge["dns_agrees"] or answers(), "it is told of, or mended already")
            visitors.await_visits(20)
        finally:
            try:
                os.kill(frozen, signal.SIGCONT)
            except ProcessLookupError:
                assert scene.pids(EDGE).get("dns") != frozen, "somebody put another one in its place"
        wait_until(answers, "it answers again", TRUTH_S)
        told(scene, lambda edge: bool(edge["dns_agrees"]), "and agrees")
    assert visitors.failures == []


def test_a_name_that_leads_elsewhere_leads_no_request_there(scene: TrafficScene) -> None:
    """S09, M-25, D-27: a record that was changed behind the agent's back is told of and put right; the edge dials the
    address that was signed, and not once what the name says meanwhile."""
    internal, here = f"web.shop.{ZONE}", scene.registry.partition(":")[0]
    worker, dns = scene.addresses[WORKER], scene.pids(EDGE)["dns"]
    run = Path(scene.made.node(EDGE)["dirs"]["run"])
    files = [path for path in run.rglob("*") if path.is_file() and f"{worker} {internal}".encode() in path.read_bytes()]
    assert files, "the records of the edge's DNS are in no file"
    with scene.visitors("shop").at_work() as visitors, socket.create_server((here, 443)) as impostor:
        visitors.await_visits(20)
        for path in files:
            path.write_text(path.read_text().replace(f"{worker} {internal}", f"{here} {internal}"))
        os.kill(dns, signal.SIGHUP)
        wait_until(lambda: scene.asked(internal) == [worker], "the record is right again", TRUTH_S)
        visitors.await_visits(100)
        impostor.settimeout(0.1)
        with pytest.raises(TimeoutError):
            impostor.accept()
    assert visitors.failures == []


def test_killed_dns_comes_back_with_all_its_records(scene: TrafficScene) -> None:
    """T-06 (5), C-20."""
    internal = f"web.shop.{ZONE}"
    os.kill(scene.pids(EDGE)["dns"], signal.SIGKILL)
    wait_until(lambda: scene.asked(internal) == [scene.addresses[WORKER]], "it answers again", TRUTH_S)


def test_an_edge_that_is_cut_off_is_not_called_live(scene: TrafficScene) -> None:
    """I-02, M-44: nobody knows, and that is said."""
    scene.made.lab("cut", EDGE).ok()
    try:
        told(scene, lambda edge: edge["status"] != "live", "nobody knows of the edge")
        none_calls_it_well(scene, "shop", places=(EDGE,))
    finally:
        scene.made.lab("heal").ok()
    told(scene, lambda edge: edge["status"] == "live", "it is heard again")


def test_a_cut_between_edge_and_worker_is_told_of_and_heals(scene: TrafficScene) -> None:
    """M-86: the hub hears both and would believe them well; only the edge knows better."""
    scene.made.lab("cut", EDGE, WORKER).ok()
    try:
        told(scene, lambda edge: not edge["backend_reachable"], "the edge does not reach the worker")
        none_calls_it_well(scene, "shop", places=(EDGE,))
        assert scene.fetch("shop", 3)[0] in ("502", "504", "silent")
    finally:
        scene.made.lab("heal").ok()
    told(scene, lambda edge: bool(edge["backend_reachable"]), "it reaches it again")


def test_a_worker_whose_power_was_cut_comes_back_behind_the_same_name(scene: TrafficScene) -> None:
    """M-86, I-01: 502 in between; proxy, DNS and routes are there after a boot without anybody's help."""
    scene.made.lab("kill", WORKER).ok()
    assert scene.pids(WORKER) == {}
    assert scene.fetch("shop", 3)[0] in ("502", "504", "silent")
    told(scene, lambda edge: not edge["backend_reachable"], "the backend is gone")
    none_calls_it_well(scene, "shop", places=(WORKER,))
    scene.made.lab("start", WORKER).ok()
    wait_until(lambda: scene.answers("shop"), "it answers again")
    wait_until(lambda: {"node", "agent", "proxy", "dns"} <= scene.pids(WORKER).keys(), "its DNS is there, too")


# ---- daemons


def test_an_edge_whose_agent_is_dead_is_not_called_live(scene: TrafficScene) -> None:
    """Traffic goes on, but no report proves it: what serves is not known, and the hub sends an alarm that names the
    hostname's edge."""
    scene.made.lab("kill", EDGE, "--agent").ok()
    try:
        none_calls_it_well(scene, "shop", places=(EDGE,))
        assert scene.answers("shop")
        wait_until(lambda: "node_silent" in scene.ear.about(EDGE), "the alarm")
    finally:
        scene.made.lab("start", EDGE).ok()


def test_an_edge_whose_proxy_hangs_is_not_called_live(scene: TrafficScene) -> None:
    frozen = scene.pids(EDGE)["proxy"]
    os.kill(frozen, signal.SIGSTOP)
    try:
        none_calls_it_well(scene, "shop", places=(EDGE,))
    finally:
        with suppress(ProcessLookupError):
            os.kill(frozen, signal.SIGCONT)


def test_traffic_does_not_notice_that_hub_and_agents_are_dead(scene: TrafficScene) -> None:
    """I-01: proxies and DNS are the same processes before, meanwhile and afterwards."""
    nodes = ("hub1", WORKER, EDGE)
    serving = {node: served(scene, node) for node in nodes}
    assert all({"proxy", "dns"} <= serving[node].keys() for node in (WORKER, EDGE))
    with scene.visitors("shop").at_work() as visitors:
        scene.made.lab("kill", "hub").ok()
        for node in nodes:
            scene.made.lab("kill", node, "--agent").ok()
        visitors.await_visits(300)
        assert {node: served(scene, node) for node in nodes} == serving
        assert scene.asked(f"web.shop.{ZONE}") == [scene.addresses[WORKER]]
        scene.made.lab("up").ok()
        visitors.await_visits(100)
    assert visitors.failures == []
    assert {node: served(scene, node) for node in nodes} == serving
    scene.hello("shop", "hello:2")
    scene.deploy("shop").ok()
    assert scene.says("shop")["version"] == "2"
    scene.hello("shop", "hello:1")
    scene.deploy("shop").ok()


def served(scene: TrafficScene, node: str) -> dict[str, int]:
    return {part: pid for part, pid in scene.pids(node).items() if part in ("proxy", "dns")}
