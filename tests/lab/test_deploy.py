"""Deploying for real, in a lab: the old one serves until the new one is proven (issue 4, done when, 1).

What happened is told by podman itself: container ids, process ids, and the times of its events.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.remedies import clauses
from tests.fleets.deploy_scene import DeployScene, Running, web
from tests.fleets.lab_pasting import pastes
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SLOW_S = 1.5
UNKNOWN = "hello@sha256:" + "0" * 64


@pytest.fixture
def scene(deploy_lab: DeployScene) -> Iterator[DeployScene]:
    """Whatever a test did, a container that is none of ours is as it was (W10)."""
    yield deploy_lab
    assert deploy_lab.foreign_untouched()


@pytest.fixture
def room(tmp_path: Path) -> Path:
    return tmp_path


def version(scene: DeployScene, container: Running) -> str:
    return str(json.loads(scene.answer(container))["version"])


# ---- a first deploy, an update


def test_a_deploy_returns_when_the_service_is_seen_healthy(scene: DeployScene) -> None:
    """M-78 (1–2), T-01, T-14: the command ends with what a check has seen, and podman shows whose container it is."""
    scene.hello("first", "hello:1")
    said = scene.deploy("first").ok()
    one = scene.one("first")
    assert version(scene, one) == "1"
    assert "healthy" in said.out + said.err, "the steps are told"
    labels = json.loads(scene.podman("inspect", one.id))[0]["Config"]["Labels"]
    assert {f"holdfast.{key}" for key in ("fleet", "service", "component", "deployment", "epoch")} <= labels.keys()
    (row,) = [each for each in scene.run("ps", "--json").ok().json["services"] if each["name"] == "first"]
    assert (row["status"], row["node"], row["component"]) == ("running", "w1", "web")
    assert scene.run("plan").ok().out.startswith("No changes")
    assert scene.deploy("first").ok() and scene.one("first").identity == one.identity, "nothing to do, nothing done"


def test_the_old_one_is_stopped_after_the_new_one_is_healthy(scene: DeployScene, room: Path) -> None:
    """T-06 (4): the new one needs a while until it answers; the old one outlives that, by podman's own clock."""
    text = f'ARG REGISTRY\nFROM $REGISTRY/hello:2\nENTRYPOINT ["/bin/sh", "-c", "sleep {SLOW_S}; exec /bin/hello"]\n'
    slow = scene.build(room / "slow", "slow:1", text)
    scene.hello("roll", "hello:1")
    scene.deploy("roll").ok()
    old, began_s = scene.one("roll"), time.time() - 1
    scene.write("roll", web(slow))
    scene.deploy("roll").ok()
    new = scene.one("roll")
    assert new.id != old.id and version(scene, new) == "2"
    events = scene.events(began_s)
    (started,) = [each.at_s for each in events if each.id == new.id and each.what == "start"]
    (ended,) = [each.at_s for each in events if each.id == old.id and each.what == "died"]
    assert ended - started >= SLOW_S, "the old one died before the new one could answer"
    assert [each.what for each in events if each.id == old.id][-1] == "remove"


# ---- deploys that fail


@pytest.mark.parametrize(
    ("image", "step"),
    [(UNKNOWN, "pull"), ("hello:sick", "healthy"), ("hello:broken", "healthy")],
    ids=["no-such-image", "sick", "broken"],
)
def test_a_failed_update_leaves_the_old_one_untouched(scene: DeployScene, image: str, step: str) -> None:
    """M-46, I-21, M-09: same container, same process, still answering; exit 1 and the step; one alert; a way back."""
    name = f"keep-{step}-{image[-2:]}"
    scene.hello(name, "hello:1")
    scene.deploy(name).ok()
    old, heard = scene.one(name), len(scene.ear.heard)
    scene.hello(name, image, start_period="2s")
    failed = scene.deploy(name)
    assert failed.code == 1 and step in failed.err + failed.out, failed
    assert "remedy" in failed.err, failed.err
    assert scene.one(name).identity == old.identity and version(scene, old) == "1"
    said = scene.status()
    assert "applied" in said and "serving" in said and f"service.{name}" in said, said
    about = f"service.{name}"
    wait_until(lambda: any(each == about for _, each in scene.ear.heard[heard:]), "somebody is told")
    time.sleep(1.5)
    assert [code for code, each in scene.ear.heard[heard:] if each == about] == ["rollout_failed"]
    usual = "`holdfast rollback` returns to the last working revision"
    (back,) = pastes(usual, clauses_of(failed), lambda line: typed(scene, line))
    back.ok()
    assert scene.one(name).identity == old.identity, "going back to what serves touches nothing"
    assert "serving" not in "".join(line for line in scene.status().splitlines() if about in line)
    scene.hello(name, "hello:1")
    assert scene.run("plan").ok().out.startswith("No changes")


def clauses_of(failed: Outcome) -> list[str]:
    printed = [line.removeprefix("remedy: ") for line in failed.err.splitlines() if line.startswith("remedy: ")]
    return [clause for remedy in printed for clause in clauses(remedy)]


def typed(scene: DeployScene, line: str) -> Outcome:
    """By a person who answers yes, and who does not follow `podman login`, which asks for a password."""
    if not line.startswith("holdfast "):
        return Outcome(0, "", "")
    return scene.run(*line.split()[1:], "--yes")


def test_a_first_deploy_that_fails_leaves_nothing_and_says_what_the_container_said(scene: DeployScene) -> None:
    scene.hello("stillborn", "hello:broken", start_period="2s")
    failed = scene.deploy("stillborn")
    assert failed.code == 1 and "is broken and exits" in failed.out + failed.err, failed
    assert scene.containers("stillborn") == []
    (back,) = pastes("`holdfast undeploy {}` removes it", clauses_of(failed), lambda line: typed(scene, line))
    back.ok()
    scene.gone("stillborn")


# ---- replicas, data


def test_replicas_are_rolled_and_scaling_touches_only_the_surplus(scene: DeployScene) -> None:
    scene.hello("many", "hello:1", replicas=3)
    scene.deploy("many").ok()
    three = scene.containers("many")
    assert len({one.id for one in three if version(scene, one) == "1"}) == 3
    scene.hello("many", "hello:1", replicas=2)
    scene.deploy("many").ok()
    two = scene.containers("many")
    assert len(two) == 2 and {one.identity for one in two} < {one.identity for one in three}
    scene.hello("many", "hello:2", replicas=2)
    scene.deploy("many").ok()
    assert [version(scene, one) for one in scene.containers("many")] == ["2", "2"]


def test_a_component_with_data_is_recreated_without_losing_a_number(scene: DeployScene, room: Path) -> None:
    """Never two at once, nothing reported is missing, and a checkpoint lies where no container reaches."""
    second = scene.build(room / "witness", "witness:2", "ARG REGISTRY\nFROM $REGISTRY/witness:1\nENV W=2\n")
    scene.witness("book")
    scene.deploy("book").ok()
    old, collector = scene.one("book"), scene.collector("book")
    wait_until(lambda: len(collector.heard) > 5, "the witness reports")
    scene.witness("book", second.rpartition("/")[2])
    scene.deploy("book").ok()
    new, told = scene.one("book"), len(collector.heard)
    wait_until(lambda: len(collector.heard) > told + 3, "the new one reports")
    assert new.id != old.id
    assert scene.lost("book") == set() and collector.interleaved() == []
    checkpoints = scene.data(".checkpoints", "book")
    (checkpoint,) = [entry for entry in checkpoints.iterdir() if entry.is_dir()]
    (kept,) = checkpoint.rglob("sequence")
    assert int(kept.read_text().splitlines()[-1].split()[0]) <= max(scene.sequence("book"))


def test_undeploy_keeps_the_data_and_a_later_deploy_goes_on_with_it(scene: DeployScene) -> None:
    """M-85, C-08: retired data is listed until somebody signs a purge; a redeploy finds it."""
    scene.witness("memory")
    scene.deploy("memory").ok()
    book = scene.data("memory", "book") / "sequence"
    wait_until(lambda: book.exists() and len(scene.sequence("memory")) > 3, "it wrote")
    scene.run("undeploy", "memory", "--yes").ok()
    assert scene.containers("memory") == []
    before = max(scene.sequence("memory"))
    wait_until(lambda: "memory" in scene.run("retired").ok().out, "its data is listed")
    scene.deploy("memory").ok()
    wait_until(lambda: max(scene.sequence("memory")) > before + 2, "it goes on")
    found = scene.sequence("memory")
    assert len(found) == max(found), "no number is missing"
    wait_until(lambda: "memory" not in scene.run("retired").ok().out, "its data is no longer listed")


# ---- by hand


def test_a_stopped_service_stays_stopped_over_an_agent_restart(scene: DeployScene) -> None:
    """C-30, D-18, T-27: a hold is an operator's word; start and restart lift it."""
    scene.hello("held", "hello:1")
    scene.deploy("held").ok()
    first = scene.one("held")
    scene.run("stop", "held", "--yes").ok()
    (stopped,) = scene.containers("held")
    assert not stopped.running
    scene.kill_agent()
    scene.start_agent()
    time.sleep(3)
    assert [one.running for one in scene.containers("held")] == [False]
    scene.run("start", "held", "--yes").ok()
    again = scene.one("held")
    assert again.id == first.id and again.pid != first.pid and version(scene, again) == "1"
    scene.run("restart", "held", "--yes").ok()
    assert scene.one("held").started_s > again.started_s


def test_what_is_stopped_or_removed_by_hand_comes_back(scene: DeployScene) -> None:
    """M-09, T-06 (2–3), T-10: drift is mended; what somebody stopped behind the agent's back is no hold."""
    scene.hello("drift", "hello:1")
    scene.deploy("drift").ok()
    one = scene.one("drift")
    scene.podman("stop", one.id)
    wait_until(lambda: scene.running("drift"), "it was started again")
    assert scene.one("drift").id == one.id
    scene.podman("rm", "--force", "--time", "0", one.id)
    wait_until(lambda: scene.running("drift"), "there is another one")
    wait_until(lambda: any(map(scene.answers, scene.running("drift"))), "which answers")


# ---- secrets, names


def test_a_secret_is_a_file_in_the_container_and_in_no_other_place(scene: DeployScene, room: Path) -> None:
    """Opened on the node alone; neither podman nor a command shows it."""
    (room / "value").write_text("three blind mice")
    scene.hello("secretive", "hello:1", secrets=["rhyme"])
    scene.run("secret", "set", "rhyme", "--file", str(room / "value"), "--yes").ok()
    scene.deploy("secretive").ok()
    one = scene.one("secretive")
    assert scene.podman("exec", one.id, "cat", "/run/secrets/rhyme") == "three blind mice"
    assert "blind" not in scene.podman("inspect", one.id)
    assert "blind" not in scene.run("plan").out + scene.run("ps", "--json").out + scene.status()
    assert b"blind" not in (scene.made.fleet / "secrets" / "rhyme.age").read_bytes()


def test_two_components_find_each_other_by_name(scene: DeployScene, room: Path) -> None:
    """The example as it is shipped: the front asks the till, which counts on its volume."""
    for part in ("front", "till"):
        scene.build(Path(shutil.copytree(ROOT / "examples" / "shop" / part, room / part)), f"{part}:1")
    declared = (ROOT / "examples" / "shop" / "shop.toml").read_text().replace("public = true", "public = false")
    scene.write("shop", declared.replace('"REGISTRY/', f'"{scene.registry}/'))
    scene.deploy("shop").ok()
    (front,) = [one for one in scene.containers("shop") if one.component == "front"]
    assert scene.answer(front) == "Welcome to the shop. Customers so far: 1\n"
    assert scene.answer(front) == "Welcome to the shop. Customers so far: 2\n"
    assert len((scene.data("shop", "customers") / "customers").read_text().splitlines()) == 2


def test_two_services_that_claim_one_hostname_are_refused(scene: DeployScene) -> None:
    route = '[[components.routes]]\nname = "web"\nport = 8080\nhostname = "www.example.test"\npublic = true\n'
    for name in ("claim-a", "claim-b"):
        scene.write(name, web(scene.image("hello:1")).partition("[[components.routes]]")[0] + route)
    try:
        refused = scene.run("plan", "--json").refused(2)
        assert "www.example.test" in refused["message"] and "claim-" in refused["message"]
    finally:
        scene.gone("claim-a")
        scene.gone("claim-b")
