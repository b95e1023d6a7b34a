"""`holdfast logs` with real processes: podman's logs through an agent, a hub and a command, and each of them killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.deploy_scene import DeployScene
from tests.fleets.lab import command
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

LINES = 3_000
SERVES = "hello 1 serves on 8080"
CHATTY = f"""ARG REGISTRY
FROM $REGISTRY/hello:1
ENTRYPOINT ["/bin/sh", "-c", "i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done; exec /bin/hello"]
"""


@pytest.fixture(scope="module")
def scene(deploy_lab: DeployScene, tmp_path_factory: pytest.TempPathFactory) -> DeployScene:
    deploy_lab.build(tmp_path_factory.mktemp("chatty"), "chatty:1", CHATTY)
    deploy_lab.hello("chatty", "chatty:1")
    deploy_lab.deploy("chatty").ok()
    deploy_lab.hello("calm", "hello:1")
    deploy_lab.deploy("calm").ok()
    return deploy_lab


@contextmanager
def following(scene: DeployScene, room: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """A command that goes on, once it has shown something; and what it has shown so far."""
    shown = room / "shown"
    with shown.open("w") as out:
        process = subprocess.Popen(
            command("logs", *words, "-f"), cwd=scene.made.home, env=scene.env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    try:
        wait_until(lambda: shown.stat().st_size > 0, "it shows something")
        yield process, shown.read_text
    finally:
        process.kill()
        process.wait(60)


def texts(shown: str) -> list[str]:
    return [line.partition(" | ")[2] for line in shown.splitlines()]


def test_everything_a_container_wrote_is_shown_once_and_in_order(scene: DeployScene) -> None:
    found = scene.run("logs", "chatty").ok().out
    wanted = [f"line {number}" for number in range(LINES)]
    # podman 4.3 does not tell where conmon cut a line because its buffer was full (ADR 0020): one may come as two.
    said = texts(found)
    said.remove(SERVES)  # on stderr: conmon reads it beside stdout, so that it may come earlier than it was written
    assert "".join(said) == "".join(wanted), "nothing is lost, repeated or out of order"
    assert len(set(wanted) - set(said)) <= LINES // 100
    assert {line.partition(" | ")[0] for line in found.splitlines()} == {"w1 chatty/web.0"}
    # With --tail it puts the first piece of such a line behind the line before: pieces differ, not their content.
    tail = texts(scene.run("logs", "chatty/web", "--tail", "3").ok().out)
    assert len(tail) == 3 and "".join(texts(found)).endswith("".join(tail))
    assert scene.run("logs", "chatty", "--json").ok().out.count("\n") == len(texts(found))


def test_following_goes_on_over_an_update_and_ends_with_ctrl_c(scene: DeployScene, tmp_path: Path) -> None:
    with following(scene, tmp_path, "calm") as (process, shown):
        scene.hello("calm", "hello:2")
        scene.deploy("calm").ok()
        wait_until(lambda: "hello 2" in shown(), "it shows the new one")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert texts(shown()) == ["hello 1 serves on 8080", "hello 2 serves on 8080"]


@pytest.mark.parametrize("dies", ["agent", "hub"])
def test_whoever_dies_in_between_ends_the_stream_with_exit_6(scene: DeployScene, tmp_path: Path, dies: str) -> None:
    with following(scene, tmp_path, "calm") as (process, _):
        try:
            scene.run("lab", "kill", *(("hub",) if dies == "hub" else ("w1", "--agent"))).ok()
            assert process.wait(60) == 6
        finally:
            scene.run("lab", "start", "hub" if dies == "hub" else "w1").ok()
    assert process.stderr is not None
    said = process.stderr.read()
    assert "was cut" in said and "remedy: repeat the command" in said
    wait_until(lambda: scene.run("logs", "calm", "--tail", "1").code == 0, "it never came back")
