"""Every runtime runs what it is told, tells the truth about it, and touches nothing else (T-06, T-10, I-13)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import bcrypt
import pytest

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.process.process import Process, arguments, known, send, with_argument
from holdfast.adapters.runtime.memory import Behaviour, Directory, Image, MemoryRuntime
from holdfast.adapters.runtime.podman import creation, pulling, sealed_env
from holdfast.adapters.runtime.podman.frame import Frames, log_line
from holdfast.adapters.runtime.podman.happening import Happening
from holdfast.adapters.runtime.podman.libpod import Answer, Libpod, Refused
from holdfast.adapters.runtime.podman.listing import Listing
from holdfast.adapters.runtime.podman.runtime import Podman
from holdfast.errors import Failed, NotPermitted, TryLater
from holdfast.model.container import OUR_LABELS, Container, ContainerSpec, Mount, Published
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import CreateContainer, Finished, LogLine, Pipe, Piped, PortTaken
from tests.fleets.doors import OpenRuntime
from tests.fleets.podman import IMAGE, ThrowAway, busybox, throw_away
from tests.fleets.ports import free_port
from tests.fleets.virtual import VirtualLoop
from tests.fleets.waiting import Stopwatch, wait_until

T = TypeVar("T")
SLEEPS = ("sh", "-c", "trap 'exit 0' TERM; echo ready; sleep 1000 & wait")
SPEAKS = ("sh", "-c", "echo one; echo two; echo three; sleep 0.7; echo four")
FAILS = ("sh", "-c", "exit 3")
LOOPS = ("sh", "-c", "sleep 2; exit 7")
GREEDY = ("sh", "-c", "sleep 0.5; x=a; while :; do x=$x$x; done")
ENDS = ("sh", "-c", "echo done")
SLOW = ("sh", "-c", "trap 'sleep 11; exit 0' TERM; echo ready; sleep 1000 & wait")
DEAF = ("sh", "-c", "trap '' TERM; echo ready; sleep 1000 & wait; sleep 1000")
LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(1000)"
LABELS = {"holdfast.fleet": "f" * 16, "holdfast.service": "web"}


def spec(command: Sequence[str] = SLEEPS, **more: Any) -> ContainerSpec:
    known: dict[str, Any] = {"fleet": "f" * 16, "service": "web", "component": "app", "epoch": 1, "image": IMAGE}
    return ContainerSpec(**{**known, "digest": "", "command": tuple(command), **more})


def made(name: str, command: Sequence[str] = SLEEPS, **more: Any) -> CreateContainer:
    spec_keys = {key: more.pop(key) for key in tuple(more) if key in ContainerSpec.__struct_fields__}
    return CreateContainer(name, spec(command, **spec_keys), LABELS, **more)


# ---- the scenes: a runtime, and hands that do to its containers what life does --------------------------------------


class Scene(Protocol):
    runtime: Any

    def do(self, story: Coroutine[Any, Any, T]) -> T: ...
    def kill(self, container: Container) -> None: ...
    def kill_supervisor(self, container: Container) -> None: ...
    def foreign(self, name: str) -> None: ...
    def take(self, port: int) -> None: ...
    def read(self, path: str) -> bytes: ...
    def end(self) -> None: ...


class MemoryScene:
    """Its time is virtual; what commands do is told beforehand."""

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        asyncio.set_event_loop(self._loop)
        self.memory = MemoryRuntime(LoopClock(self._loop, 1_800_000_000.0))
        self.memory.here.add(IMAGE)
        self.memory.behaviours |= {
            SPEAKS: Behaviour(exit_after_s=0.7, says=("one", "two", "three")),
            FAILS: Behaviour(exit_after_s=0.0, exit_code=3),
            LOOPS: Behaviour(exit_after_s=2.0, exit_code=7),
            ENDS: Behaviour(exit_after_s=0.0, says=("done",)),
            SLOW: Behaviour(stop_s=11.0, says=("ready",)),
            DEAF: Behaviour(stop_s=1000.0, says=("ready",)),
            SLEEPS: Behaviour(executes=_executed, pipes=_piped, exec_s=0.1, says=("ready",)),
        }
        self.runtime: Any = OpenRuntime(self.memory)

    def do(self, story: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(story)

    def kill(self, container: Container) -> None:
        self.memory.crash(container.id)

    def kill_supervisor(self, container: Container) -> None:
        self.memory.lose_supervisor(container.id)

    def foreign(self, name: str) -> None:
        self.memory.place(Container(id=f"{name:0<64}", name=name, phase="running", running=True, pid=99))

    def take(self, port: int) -> None:
        self.memory.taken.add(port)

    def read(self, path: str) -> bytes:
        return self.memory.files.get(path, b"")

    def end(self) -> None:
        self.do(self.runtime.close())
        asyncio.set_event_loop(None)
        self._loop.close()


def _piped(command: Sequence[str], read: bytes) -> tuple[Finished, bytes]:
    if command[0] == "cat":
        return Finished(0, read.decode()), read
    return (Finished(3, ""), b"half") if "exit 3" in command[-1] else (Finished(0, "why\n"), b"1 2 3\n")


def _executed(command: Sequence[str]) -> Finished:
    return Finished(3, "out\n") if "exit 3" in " ".join(command) else Finished(0, "")


class PodmanScene:
    def __init__(self, node: ThrowAway, runner: asyncio.Runner, podman: Podman) -> None:
        self.node = node
        self._runner = runner
        self.runtime: Any = OpenRuntime(podman)
        self._others: list[subprocess.Popen[bytes]] = []

    def do(self, story: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(story)

    def kill(self, container: Container) -> None:
        os.kill(self._state(container)["Pid"], signal.SIGKILL)

    def kill_supervisor(self, container: Container) -> None:
        pid = self._state(container)["ConmonPid"]
        os.kill(pid, signal.SIGKILL)
        while known(pid) is not None:
            time.sleep(0.01)

    def _state(self, container: Container) -> dict[str, int]:
        state = self.node.inspect(container.id)["State"]
        assert isinstance(state, dict) and state["Pid"] > 1
        return state

    def foreign(self, name: str) -> None:
        self.node.podman("run", "--detach", "--name", name, IMAGE)

    def take(self, port: int) -> None:
        self._others.append(self.node.spawn(sys.executable, "-c", LISTEN, str(port)))
        self.node.await_listener(port)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes() if Path(path).exists() else b""

    def end(self) -> None:
        for other in self._others:
            other.kill()
            other.wait(60)
        wait_until(self._emptied, "every container is gone")

    def _emptied(self) -> bool:
        """Podman fails if a container ends while it is removed: then it is asked once more."""
        if self.do(self.runtime.containers()):
            with suppress(AssertionError):
                self.node.podman("rm", "--all", "--force", "--time", "0")
        return not self.do(self.runtime.containers())


@pytest.fixture(scope="module")
def node() -> Iterator[ThrowAway]:
    with throw_away() as node:
        node.load_busybox()
        yield node


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def podman(node: ThrowAway, runner: asyncio.Runner) -> Iterator[Podman]:
    found = runner.run(_podman(node))
    yield found
    runner.run(found.close())


async def _podman(node: ThrowAway, **more: Any) -> Podman:
    return Podman(None, node.run_dir, environ=node.environ, command=node.command, **more)


@pytest.fixture
def real(node: ThrowAway, runner: asyncio.Runner, podman: Podman) -> Iterator[PodmanScene]:
    scene = PodmanScene(node, runner, podman)
    yield scene
    scene.end()


@pytest.fixture(params=["memory", pytest.param("podman", marks=pytest.mark.lab)])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    if request.param == "podman":
        yield request.getfixturevalue("real")
        return
    memory = MemoryScene()
    yield memory
    memory.end()


async def find(runtime: Any, id: str) -> Container | None:
    return next((one for one in await runtime.containers() if one.id == id), None)


async def seen(runtime: Any, id: str) -> Container:
    found = await find(runtime, id)
    assert found is not None
    return found


async def until(runtime: Any, id: str, true: Callable[[Container], bool]) -> Container:
    for _ in range(1200):
        found = await seen(runtime, id)
        if true(found):
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {found}")


async def logged(runtime: Any, id: str, lines: int) -> list[LogLine]:
    """What it wrote, once there are so many lines."""
    for _ in range(1200):
        found = [line async for line in runtime.logs(id, None, 0.0, follow=False)]
        if len(found) >= lines:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {found}")


def in_time(scene: Scene, began_s: float, watch: Stopwatch, limit_s: float) -> bool:
    """By the virtual clock of a runtime in memory, by the real one of podman."""
    if isinstance(scene, MemoryScene):
        return asyncio.get_running_loop().time() - began_s < limit_s
    return watch.within(limit_s)


async def started(runtime: Any, name: str, command: Sequence[str] = SLEEPS, **more: Any) -> str:
    id: str = await runtime.create(made(name, command, **more))
    await runtime.start(id)
    if command in (SLEEPS, SLOW, DEAF):
        await logged(runtime, id, 1)  # from then on its trap is set
    return id


# ---- permissions ----------------------------------------------------------------------------------------------------


def test_a_permission_is_good_for_its_act_and_its_thing_alone(scene: Scene) -> None:
    """A permission to start does not remove, and one for this container stops no other."""

    async def story() -> None:
        id, port = await started(scene.runtime, "guarded"), scene.runtime.inner
        tried: list[tuple[str, str, tuple[Any, ...], str, tuple[str, ...]]] = [
            ("create", "other", (made("other"),), "CREATE", ("START", "EXEC")),
            ("run", "other", (made("other", ENDS), 5.0), "EXEC", ("CREATE", "START")),
            ("start", id, (id,), "START", ("CREATE", "STOP", "RETIRE")),
            ("stop", id, (id,), "STOP", ("START", "EXEC")),
            ("remove", id, (id,), "RETIRE", ("START", "STOP", "EXEC")),
            ("exec", id, (id, ("sh", "-c", "exit 3"), 5.0), "EXEC", ("START", "RETIRE")),
            ("pipe", id, (id, ("sh", "-c", "exit 3"), Pipe(), 5.0), "EXEC", ("START", "RETIRE")),
            ("remove_network", "net", ("net",), "CLEAN_UP", ("START", "STOP")),
        ]
        for verb, thing, given, fitting, others in tried:
            for allowed in [Allowed(fitting, "another"), *(Allowed(act, thing) for act in others)]:
                with pytest.raises(NotPermitted, match="does not permit"):
                    await getattr(port, verb)(*given, allowed)
        assert (await seen(scene.runtime, id)).running
        assert [one.name for one in await scene.runtime.containers() if one.name == "other"] == []
        await scene.runtime.stop(id, 0.0)
        await scene.runtime.remove(id)

    scene.do(story())


# ---- a container's life ---------------------------------------------------------------------------------------------


def test_what_is_created_is_there_and_does_not_run(scene: Scene) -> None:
    async def story() -> None:
        id = await scene.runtime.create(made("one"))
        found = await seen(scene.runtime, id)
        assert (found.name, found.phase, found.running, found.pid) == ("one", "created", False, 0)
        assert found.labels.items() >= LABELS.items() and found.image == IMAGE

    scene.do(story())


def test_who_mounts_a_directory_is_told_for_what_is_in_it_and_around_it(scene: Scene, tmp_path: Path) -> None:
    """X06: containers that are only created count too."""
    (tmp_path / "web" / "book").mkdir(parents=True)
    source = str(tmp_path / "web" / "book")

    async def story() -> None:
        await scene.runtime.create(made("uses", mounts=(Mount(source, "/data"),)))
        await scene.runtime.create(made("other"))
        for path in (source, f"{source}/deeper", str(tmp_path / "web"), str(tmp_path / "web") + "/"):
            assert list(await scene.runtime.users(path)) == ["uses"], path
        for path in (str(tmp_path / "we"), f"{source}-2", str(tmp_path / "db")):
            assert list(await scene.runtime.users(path)) == [], path

    scene.do(story())


def test_creating_twice_gives_the_same_container(scene: Scene) -> None:
    async def story() -> None:
        first = await started(scene.runtime, "one")
        assert await scene.runtime.create(made("one", FAILS)) == first
        assert [c.name for c in await scene.runtime.containers()] == ["one"]
        assert (await seen(scene.runtime, first)).running

    scene.do(story())


def test_what_is_started_runs_and_says_where(scene: Scene) -> None:
    async def story() -> None:
        port = free_port()
        id = await started(scene.runtime, "one", ports=(8080,), publish=((8080, "127.0.0.1", port),))
        found = await seen(scene.runtime, id)
        assert found.running and found.phase == "running" and found.pid > 1
        assert found.ports == (Published(8080, "127.0.0.1", port),)
        assert found.address.startswith("10.88.")
        assert found.created_s <= found.started_s + 1 and found.restarts == 0 and not found.ended_s

    scene.do(story())


def test_starting_twice_is_the_same_as_once(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        before = await seen(scene.runtime, id)
        await scene.runtime.start(id)
        assert await seen(scene.runtime, id) == before

    scene.do(story())


def test_stopping_and_removing_twice_is_the_same_as_once(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        await scene.runtime.stop(id, 5.0)
        stopped = await seen(scene.runtime, id)
        assert (stopped.phase, stopped.running, stopped.pid, stopped.exit_code) == ("exited", False, 0, 0)
        await scene.runtime.stop(id, 5.0)
        assert await seen(scene.runtime, id) == stopped
        await scene.runtime.remove(id)
        await scene.runtime.remove(id)
        await scene.runtime.stop(id, 5.0)
        assert await scene.runtime.containers() == []

    scene.do(story())


def test_whoever_does_not_listen_is_killed_after_the_grace(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one", DEAF)
        await scene.runtime.stop(id, 1.0)
        assert (await seen(scene.runtime, id)).exit_code == 137

    scene.do(story())


def test_a_container_has_the_time_of_its_spec_to_end_n46(scene: Scene) -> None:
    async def story() -> None:
        hasty = await started(scene.runtime, "one", DEAF, stop_s=1)
        watch, began_s = Stopwatch(), asyncio.get_running_loop().time()
        await scene.runtime.stop(hasty)
        assert (await seen(scene.runtime, hasty)).exit_code == 137 and in_time(scene, began_s, watch, 8.0)
        patient = await started(scene.runtime, "two", SLOW, stop_s=60)
        await scene.runtime.stop(patient)
        assert (await seen(scene.runtime, patient)).exit_code == 0, "ten seconds would have been too short"

    scene.do(story())


@pytest.mark.lab
def test_a_container_that_runc_could_not_tell_to_begin_is_started_once_more() -> None:
    with throw_away() as node:
        told = node.root / "told"
        wrapper = node.root / "runc-that-fails-once"
        wrapper.write_text(
            f'#!/bin/sh\ncase " $* " in *" start "*) [ -e {told} ] || {{ touch {told}; exit 1; }};; esac\n'
            'exec runc "$@"\n'
        )
        wrapper.chmod(0o755)
        settings = node.root / "containers.conf"
        engine = f'runtime = "wrapped"\nruntimes = {{ wrapped = ["{wrapper}"] }}'
        settings.write_text(settings.read_text().replace('runtime = "runc"', engine))
        node.load_busybox()

        async def story() -> None:
            podman = await _podman(node)
            try:
                assert (await seen(OpenRuntime(podman), await started(OpenRuntime(podman), "one"))).running
            finally:
                await podman.close()

        asyncio.run(story())
        assert told.exists()


def test_what_runs_is_not_removed(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        with pytest.raises(Failed):
            await scene.runtime.remove(id)
        assert (await seen(scene.runtime, id)).running

    scene.do(story())


def test_a_stopped_one_can_be_started_again(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        first = await seen(scene.runtime, id)
        await scene.runtime.stop(id, 5.0)
        await scene.runtime.start(id)
        again = await seen(scene.runtime, id)
        assert again.running and again.pid != first.pid

    scene.do(story())


def test_an_image_that_is_not_here_is_not_pulled_on_the_way(scene: Scene) -> None:
    async def story() -> None:
        assert await scene.runtime.has_image(IMAGE)
        assert not await scene.runtime.has_image("localhost/nobody:1")
        with pytest.raises(Failed) as told:
            await scene.runtime.create(made("one", image="localhost/nobody:1"))
        assert told.value.code == "image_missing"
        assert await scene.runtime.containers() == []

    scene.do(story())


def test_a_taken_port_is_said_by_number(scene: Scene) -> None:
    async def story() -> None:
        port, other = free_port(), free_port()
        scene.take(port)
        id = await scene.runtime.create(made("one", publish=((8080, "127.0.0.1", port),)))
        with pytest.raises(PortTaken) as told:
            await scene.runtime.start(id)
        assert told.value.port == port
        await started(scene.runtime, "two", publish=((8080, "127.0.0.1", other),))
        id = await scene.runtime.create(made("three", publish=((8080, "127.0.0.1", other),)))
        with pytest.raises(PortTaken) as told:
            await scene.runtime.start(id)
        assert told.value.port == other
        await scene.runtime.remove(id)

    scene.do(story())


def test_one_container_is_looked_at_by_id_or_name(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        await started(scene.runtime, "one-more")
        found = await seen(scene.runtime, id)
        assert await scene.runtime.container(id) == found and await scene.runtime.container("one") == found
        assert await scene.runtime.container("on") is None and await scene.runtime.container("0" * 64) is None
        await scene.runtime.stop(id, 5.0)
        stopped = await scene.runtime.container(id)
        assert stopped is not None and not stopped.running
        await scene.runtime.remove(id)
        assert await scene.runtime.container(id) is None

    scene.do(story())


def test_foreign_containers_are_seen_and_left_alone(scene: Scene) -> None:
    scene.foreign("a-stranger")

    async def story() -> None:
        before = [one for one in await scene.runtime.containers() if one.name == "a-stranger"]
        assert before[0].running and before[0].service == ""
        id = await started(scene.runtime, "one")
        assert [one.name for one in await scene.runtime.containers()] == ["a-stranger", "one"]
        await scene.runtime.stop(id, 0.0)
        await scene.runtime.remove(id)
        await scene.runtime.run(made("hook", ENDS), 60.0)
        assert await scene.runtime.containers() == before

    scene.do(story())


# ---- death, and what comes after it ---------------------------------------------------------------------------------


def test_a_crashed_one_comes_back_by_itself(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        before = await seen(scene.runtime, id)
        assert scene.runtime.is_alive(before)
        scene.kill(before)
        for _ in range(6000):  # a signal takes its moment on a busy machine
            if not scene.runtime.is_alive(before):
                break
            await asyncio.sleep(0.01)
        assert not scene.runtime.is_alive(before), "told without asking anybody"
        after = await until(scene.runtime, id, lambda one: one.running and one.restarts == 1)
        assert after.pid != before.pid
        assert scene.runtime.is_alive(after) and not scene.runtime.is_alive(before), "another life is another one"

    scene.do(story())


def test_the_exit_of_a_process_is_known_while_the_next_one_runs_n20(scene: Scene) -> None:
    """Podman's list forgets it with the restart."""

    async def story() -> None:
        await scene.runtime.version()
        id = await started(scene.runtime, "one", LOOPS)
        assert (await seen(scene.runtime, id)).last_exit is None
        found = await until(scene.runtime, id, lambda one: one.running and one.last_exit is not None)
        assert (found.last_exit, found.last_end, found.oom) == (7, "7", False)

    scene.do(story())


def test_a_process_that_had_no_memory_left_is_told_from_one_that_was_killed_n20(real: PodmanScene) -> None:
    async def story() -> None:
        await real.runtime.version()
        id = await started(real.runtime, "greedy", GREEDY, memory_bytes=24 << 20)
        greedy = await until(real.runtime, id, lambda one: one.restarts > 0 and one.last_exit is not None)
        assert greedy.last_end == "137 oom"
        other = await started(real.runtime, "killed", memory_bytes=24 << 20)
        real.kill(await seen(real.runtime, other))
        killed = await until(real.runtime, other, lambda one: one.restarts > 0 and one.last_exit is not None)
        assert killed.last_end == "137"

    real.do(story())


def test_one_that_always_fails_is_given_up_after_five_tries(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one", FAILS)
        found = await until(scene.runtime, id, lambda one: one.restarts == 5 and one.exit_code == 3)
        for _ in range(120):  # podman counts a restart before it begins it
            await asyncio.sleep(0.5)
            before, found = found, await seen(scene.runtime, id)
            if found == before:
                break
        assert found == before and (found.phase, found.restarts, found.exit_code) == ("exited", 5, 3)

    scene.do(story())


def test_what_ended_well_or_is_not_to_be_restarted_stays_down(scene: Scene) -> None:
    async def story() -> None:
        ended, failed = (
            await started(scene.runtime, "one", ENDS),
            await started(scene.runtime, "two", FAILS, restart=False),
        )
        for id, code in ((ended, 0), (failed, 3)):
            found = await until(scene.runtime, id, lambda one: one.phase == "exited" and one.exit_code >= 0)
            assert (found.exit_code, found.restarts) == (code, 0)
            assert 0 < found.started_s <= found.ended_s <= found.started_s + 60
            assert found in await scene.runtime.containers()
        await asyncio.sleep(0.5)
        assert not any(one.running for one in await scene.runtime.containers())

    scene.do(story())


@pytest.mark.parametrize("after_s", [0.0, 0.06, 0.15])
def test_stopping_ends_a_row_of_restarts(scene: Scene, after_s: float) -> None:
    """At whatever moment: two of a kind that may never run at once depend on it."""

    async def story() -> None:
        id = await started(scene.runtime, "one", FAILS)
        await asyncio.sleep(after_s)
        await scene.runtime.stop(id, 1.0)
        stopped = await seen(scene.runtime, id)
        await asyncio.sleep(0.6)
        assert await seen(scene.runtime, id) == stopped and not stopped.running

    scene.do(story())


def test_one_without_its_supervisor_lives_until_its_process_dies(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        found = await seen(scene.runtime, id)
        scene.kill_supervisor(found)
        assert (await seen(scene.runtime, id)).running
        scene.kill(found)
        dead = await until(scene.runtime, id, lambda one: not one.running)
        assert (dead.running, dead.phase, dead.pid, dead.address) == (False, "exited", 0, "")
        assert dead.exit_code != 0, "nobody knows how it ended, so it did not end well"
        await scene.runtime.start(id)
        again = await seen(scene.runtime, id)
        assert again.running and again.pid != found.pid

    scene.do(story())


def test_one_without_its_supervisor_can_be_stopped_and_removed(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        found = await seen(scene.runtime, id)
        scene.kill_supervisor(found)
        began_s, watch = asyncio.get_running_loop().time(), Stopwatch()
        await scene.runtime.stop(id, 5.0)
        assert in_time(scene, began_s, watch, 4.0), "it ends when asked; nobody waits for a dead supervisor"
        assert not (await seen(scene.runtime, id)).running
        assert known(found.pid) is None
        await scene.runtime.remove(id)
        assert await scene.runtime.containers() == []

    scene.do(story())


@pytest.mark.lab
def test_one_that_was_paused_by_hand_still_holds_its_data_and_can_be_stopped_n111(real: PodmanScene) -> None:
    """It was taken for one without a process: nothing stopped it, and podman refused every command about it."""

    async def story() -> None:
        id = await started(real.runtime, "one")
        before = await seen(real.runtime, id)
        real.node.podman("pause", id)
        paused = await seen(real.runtime, id)
        assert (paused.phase, paused.running, paused.pid) == ("paused", True, before.pid)
        await real.runtime.stop(id, 5.0)
        assert (await seen(real.runtime, id)).phase == "exited" and known(before.pid) is None
        await real.runtime.remove(id)

    real.do(story())


def test_one_without_its_supervisor_that_does_not_listen_is_killed(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one", DEAF)
        found = await seen(scene.runtime, id)
        scene.kill_supervisor(found)
        await scene.runtime.stop(id, 0.5)
        assert known(found.pid) is None and (await seen(scene.runtime, id)).exit_code == 137

    scene.do(story())


def test_a_dead_one_without_its_supervisor_can_be_removed(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        found = await seen(scene.runtime, id)
        scene.kill_supervisor(found)
        scene.kill(found)
        await scene.runtime.stop(id, 5.0)
        await scene.runtime.remove(id)
        assert await scene.runtime.containers() == []

    scene.do(story())


def test_a_death_that_no_supervisor_reports_is_noticed_once(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        found = await seen(scene.runtime, id)
        scene.kill_supervisor(found)
        while await scene.runtime.changed(0.5):
            pass
        scene.kill(found)
        assert await scene.runtime.changed(60.0)
        assert not (await seen(scene.runtime, id)).running
        assert not await scene.runtime.changed(1.5)

    scene.do(story())


# ---- commands and words ---------------------------------------------------------------------------------------------


def test_a_command_inside_gives_its_code_and_words(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        assert await scene.runtime.exec(id, ["sh", "-c", "echo out; exit 3"], 60.0) == Finished(3, "out\n")
        await scene.runtime.stop(id, 0.0)
        with pytest.raises(Failed) as told:
            await scene.runtime.exec(id, ["sh", "-c", "exit 0"], 60.0)
        assert told.value.code == "not_running"

    scene.do(story())


def test_a_command_inside_reads_and_writes_files_of_the_node_m91(scene: Scene, tmp_path: Path) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        sink, back = str(tmp_path / "new" / "deep" / "dump"), str(tmp_path / "new" / "back")
        asked = ["sh", "-c", "echo 1 2 3; echo why >&2"]
        assert await scene.runtime.pipe(id, asked, Pipe(sink=sink), 60.0) == Piped(0, "why\n", 6, b"1 2 3\n")
        assert scene.read(sink) == b"1 2 3\n"
        assert all(path.stat().st_mode & 0o777 == 0o700 for path in tmp_path.rglob("*") if path.is_dir())
        done = await scene.runtime.pipe(id, ["cat"], Pipe(source=sink, sink=back), 60.0)
        assert done.code == 0 and scene.read(back) == b"1 2 3\n"
        done = await scene.runtime.pipe(id, ["cat"], Pipe(source=sink), 60.0)
        assert done == Piped(0, "1 2 3\n"), "without a file for its output the end of it is kept"
        failed = await scene.runtime.pipe(
            id, ["sh", "-c", "echo half; exit 3"], Pipe(sink=str(tmp_path / "half")), 60.0
        )
        assert failed.code == 3 and not scene.read(str(tmp_path / "half")), "half an output is none"
        late = await scene.runtime.pipe(id, ["sleep", "777"], Pipe(sink=sink), 0.05)
        assert late.code == 124 and "killed" in late.output

    scene.do(story())


@pytest.mark.lab
def test_a_long_stream_passes_whole_as_the_user_of_the_first_process_and_ends_with_its_caller(
    real: PodmanScene, tmp_path: Path
) -> None:
    long = 40 << 20

    async def story() -> None:
        id = await started(real.runtime, "one", user="1234:4321")
        sink = tmp_path / "dump"
        asked = ["sh", "-c", f"id -u; id -g; head -c {long} /dev/zero; echo end"]
        assert (await real.runtime.pipe(id, asked, Pipe(sink=str(sink)), 60.0)).code == 0
        assert sink.stat().st_size == long + 14 and sink.stat().st_mode & 0o777 == 0o600
        counted = await real.runtime.pipe(id, ["sh", "-c", "id -u; wc -c"], Pipe(source=str(sink)), 60.0)
        assert counted == Piped(0, f"1234\n{long + 14}\n")
        under_way = asyncio.create_task(real.runtime.pipe(id, ["sleep", "777"], Pipe(sink=str(sink)), 60.0))
        await asyncio.sleep(0.7)
        under_way.cancel()
        with suppress(asyncio.CancelledError):
            await under_way
        assert "777" not in (await real.runtime.exec(id, ["ps"], 60.0)).output
        under_way = asyncio.create_task(real.runtime.pipe(id, ["sleep", "777"], Pipe(sink=str(sink)), 60.0))
        await asyncio.sleep(0.7)
        real.kill(await seen(real.runtime, id))
        assert (await under_way).code != 0, "a container that dies is no dump"

    real.do(story())


@pytest.mark.lab
def test_output_that_a_disk_does_not_take_is_no_dump(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        id = await started(real.runtime, "one")
        asked = ["sh", "-c", "head -c 20971520 /dev/zero"]
        with pytest.raises(Failed, match="no room") as told:
            await real.runtime.pipe(id, asked, Pipe(sink=str(tmp_path / "dump")), 60.0)
        assert told.value.code == "no_space"
        assert "head" not in (await real.runtime.exec(id, ["ps"], 60.0)).output

    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], check=True)
    try:
        real.do(story())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_command_inside_that_takes_too_long_is_ended(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one")
        began_s, watch = asyncio.get_running_loop().time(), Stopwatch()
        finished = await scene.runtime.exec(id, ["sleep", "777"], 0.05)
        assert finished.code == 124 and "killed" in finished.output
        assert in_time(scene, began_s, watch, 5.0)

    scene.do(story())


def test_what_runs_to_its_end_is_gone_afterwards(scene: Scene) -> None:
    async def story() -> None:
        assert await scene.runtime.run(made("hook", ENDS), 60.0) == Finished(0, "done\n")
        assert (await scene.runtime.run(made("hook", FAILS), 60.0)).code == 3
        assert await scene.runtime.containers() == []

    scene.do(story())


def test_what_does_not_run_to_its_end_is_gone_too(scene: Scene) -> None:
    if isinstance(scene, MemoryScene):
        scene.memory.behaviours[DEAF] = Behaviour()

    async def story() -> None:
        finished = await scene.runtime.run(made("hook", DEAF), 0.5)
        assert finished.code == 124 and "killed" in finished.output
        assert await scene.runtime.containers() == []

    scene.do(story())


def test_the_log_is_told_from_its_beginning_or_its_end(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one", SPEAKS)
        lines = await logged(scene.runtime, id, 3)
        assert [line.text for line in lines] == ["one", "two", "three"]
        assert all(line.container == id and line.at_s > 1.7e9 and not line.error for line in lines)
        assert [line.text async for line in scene.runtime.logs(id, 2, 0.0, follow=False)] == ["two", "three"]
        later = scene.runtime.logs(id, None, lines[-1].at_s + 100, follow=False)
        assert [line.text async for line in later] == []

    scene.do(story())


def test_a_followed_log_ends_with_its_container(scene: Scene) -> None:
    async def story() -> None:
        id = await started(scene.runtime, "one", SPEAKS)
        if isinstance(scene, MemoryScene):
            asyncio.get_running_loop().call_later(0.6, scene.memory.say, id, "four")
        told = [line.text async for line in scene.runtime.logs(id, 1, 0.0, follow=True)]
        assert told[-1] == "four" and len(told) <= 4

    scene.do(asyncio.wait_for(story(), 60))


def test_whoever_waits_for_a_change_is_woken(scene: Scene) -> None:
    async def story() -> None:
        id = await scene.runtime.create(made("one"))
        while await scene.runtime.changed(0.5):
            pass
        waiting = asyncio.create_task(scene.runtime.changed(20.0))
        await asyncio.sleep(0.1)
        await scene.runtime.start(id)
        began_s, watch = asyncio.get_running_loop().time(), Stopwatch()
        assert await waiting
        assert in_time(scene, began_s, watch, 2.0)
        while await scene.runtime.changed(0.5):
            pass
        assert not await scene.runtime.changed(0.2)

    scene.do(story())


def test_networks_come_and_go_as_often_as_they_are_told_to(scene: Scene) -> None:
    async def story() -> None:
        for _ in range(2):
            await scene.runtime.ensure_network("hf-net", LABELS)
        id = await started(scene.runtime, "one", network="hf-net")
        await scene.runtime.remove_network("hf-net")  # in use
        await scene.runtime.stop(id, 0.0)
        await scene.runtime.start(id)
        assert (await seen(scene.runtime, id)).running
        await scene.runtime.stop(id, 0.0)
        await scene.runtime.remove(id)
        for _ in range(2):
            await scene.runtime.remove_network("hf-net")
        with pytest.raises(Failed):
            await scene.runtime.create(made("two", network="hf-net"))

    scene.do(story())


# ---- podman alone: what only a real product can show ----------------------------------------------------------------


@pytest.mark.lab
def test_podman_is_told_everything_the_spec_says(real: PodmanScene, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ours")
    asked = made(
        "one",
        env=(("COLOUR", "blue"),),
        mounts=(Mount(str(tmp_path), "/data"), Mount(str(tmp_path), "/frozen", read_only=True)),
        cpu_millicores=500,
        memory_bytes=64 * 1024 * 1024,
    )

    async def story() -> None:
        id = await real.runtime.create(asked)
        await real.runtime.start(id)
        look = "echo $COLOUR $(hostname); cat /data/file; touch /data/new && ! touch /frozen/x 2>/dev/null"
        assert await real.runtime.exec(id, ["sh", "-c", look], 60.0) == Finished(0, "blue app\nours")
        host: Any = real.node.inspect(id)["HostConfig"]
        assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 5}
        assert (host["CpuQuota"] / host["CpuPeriod"], host["Memory"]) == (0.5, 64 * 1024 * 1024)
        assert all("rprivate" in bind for bind in host["Binds"])
        await real.runtime.stop(id, 0.0)
        await real.runtime.remove(id)

    real.do(story())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "new"], "a mounted directory stays"


@pytest.mark.lab
def test_secret_variables_are_inside_and_nowhere_in_sight(real: PodmanScene) -> None:
    secret = b'it\'s $HOME "quoted"\nand two lines'
    asked = made("one", secret_env=(("PASSWORD", secret), ("OTHER", b"x")), env=(("PLAIN", "y"),))

    async def story() -> None:
        id = await real.runtime.create(asked)
        assert real.node.podman("secret", "ls", "--quiet") == ""
        await real.runtime.start(id)
        shown = real.node.podman("inspect", id) + real.node.podman("ps", "--all", "--no-trunc", "--format", "json")
        assert "two lines" not in shown and "PLAIN=y" in shown
        process = (await seen(real.runtime, id)).pid
        environ = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        assert b"PASSWORD=" + secret in environ and b"OTHER=x" in environ and b"PLAIN=y" in environ
        inside = await real.runtime.exec(id, ["sh", "-c", 'echo "$PASSWORD"'], 60.0)
        assert inside == Finished(0, secret.decode() + "\n")
        scene_container = await seen(real.runtime, id)
        real.kill(scene_container)  # podman starts it again without us
        await until(real.runtime, id, lambda one: one.running and one.restarts == 1)
        assert "two lines" not in real.node.podman("inspect", id)

    real.do(story())


@pytest.mark.lab
def test_secret_variables_reach_what_the_image_itself_runs(real: PodmanScene) -> None:
    async def story() -> None:
        id = await real.runtime.create(made("one", (), secret_env=(("PASSWORD", b"geheim"),)))
        await real.runtime.start(id)
        process = (await seen(real.runtime, id)).pid
        for _ in range(300):  # the shell that sets the variables becomes the image's own CMD
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if command == b"/bin/sleep\x001000\x00":
                break
            await asyncio.sleep(0.1)
        assert command == b"/bin/sleep\x001000\x00"
        assert b"PASSWORD=geheim" in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        told = await real.runtime.run(made("two", ("nobody-knows",), secret_env=(("PASSWORD", b"geheim"),)), 60.0)
        assert told == Finished(127, "nobody-knows: not found\n")

    real.do(story())


@pytest.mark.lab
def test_components_of_a_service_find_each_other_by_name(real: PodmanScene) -> None:
    async def story() -> None:
        await real.runtime.ensure_network("hf-web", LABELS)
        serve = ("sh", "-c", "echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp")
        await started(real.runtime, "hf-one", serve, component="db", network="hf-web")
        id = await started(real.runtime, "hf-two", network="hf-web")
        for _ in range(300):
            finished = await real.runtime.exec(id, ["wget", "-q", "-O", "-", "http://db:8080/"], 60.0)
            if finished.code == 0:
                break
            await asyncio.sleep(0.1)
        assert finished == Finished(0, "hello\n")

    try:
        real.do(story())
    finally:
        real.end()
        real.node.podman("network", "rm", "hf-web")


@pytest.mark.lab
def test_an_image_says_nothing_in_our_name(real: PodmanScene) -> None:
    """Its labels become the container's, unless they are given: a hook of one service could pose as another's."""
    forged = [f"LABEL {label}=forged" for label in OUR_LABELS]
    changes = [word for line in forged for word in ("--change", line)]
    real.node.podman("import", *changes, "-", "localhost/forged:1", data=busybox())

    async def story() -> None:
        id = await real.runtime.create(made("one", image="localhost/forged:1"))
        found = await real.runtime.container(id)
        assert found is not None and {key: value for key, value in found.labels.items() if value} == LABELS

    real.do(story())


@pytest.mark.lab
def test_a_container_cannot_fill_the_disk_with_its_log(real: PodmanScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "LOG_BYTES_MAX", 64 * 1024)
    speak = ("sh", "-c", "i=0; while [ $i -lt 4000 ]; do echo $i of a line that is not short at all; i=$((i+1)); done")

    async def story() -> None:
        id = await started(real.runtime, "one", speak)
        while (found := await real.runtime.container(id)) is not None and found.phase != "exited":
            await asyncio.sleep(0.1)
        lines: list[str] = []
        async with asyncio.timeout(60):  # conmon may write its last after the container has ended
            while not lines or not lines[-1].startswith("3999 "):
                lines = [line.text async for line in real.runtime.logs(id, None, 0.0, False)]
        assert len(lines) < 2000
        log = cast("dict[str, dict[str, dict[str, str]]]", real.node.inspect("one"))["HostConfig"]["LogConfig"]["Path"]
        assert os.path.getsize(log) <= 80 * 1024

    real.do(story())


@pytest.mark.lab
def test_a_command_that_is_not_there_is_said(real: PodmanScene) -> None:
    async def story() -> None:
        id = await real.runtime.create(made("one", ("nobody-knows",)))
        with pytest.raises(Failed, match="nobody-knows") as told:
            await real.runtime.start(id)
        assert told.value.code == "start_failed" and told.value.remedy
        assert not (await seen(real.runtime, id)).running

    real.do(story())


@pytest.mark.lab
def test_a_command_that_took_too_long_does_not_run_on(real: PodmanScene) -> None:
    async def story() -> None:
        id = await started(real.runtime, "one")
        asked = ["sh", "-c", "echo begun; sleep 777 & sleep 777"]
        for limit_s in (3, 12, 48):  # a busy machine needs more time to begin it
            finished = await real.runtime.exec(id, asked, float(limit_s))
            if "begun" in finished.output:
                break
        assert finished == Finished(124, f"begun\nkilled after {limit_s} s\n")
        assert "777" not in (await real.runtime.exec(id, ["ps"], 60.0)).output
        cancelled = asyncio.create_task(real.runtime.exec(id, asked, 100.0))
        await asyncio.sleep(0.7)
        cancelled.cancel()
        with suppress(asyncio.CancelledError):
            await cancelled
        assert "777" not in (await real.runtime.exec(id, ["ps"], 60.0)).output

    real.do(story())


@pytest.mark.lab
def test_a_health_check_every_second_leaves_nothing_behind(real: PodmanScene) -> None:
    async def story() -> None:
        id = await started(real.runtime, "one")
        for _ in range(3):
            assert (await real.runtime.exec(id, ["sh", "-c", "exit 0"], 60.0)).code == 0
        for _ in range(1200):
            theirs = [pid for pid in os.listdir("/proc") if pid.isdecimal() and id in " ".join(arguments(int(pid)))]
            if len(theirs) == 1:  # its supervisor
                break
            await asyncio.sleep(0.05)
        assert len(theirs) == 1 and real.node.inspect(id)["ExecIDs"] == []

    real.do(story())


@pytest.mark.lab
def test_what_a_crash_left_of_a_hook_is_no_hindrance(real: PodmanScene) -> None:
    async def story() -> None:
        await started(real.runtime, "hook")
        assert await real.runtime.run(made("hook", ENDS), 60.0) == Finished(0, "done\n")
        assert await real.runtime.containers() == []

    real.do(story())
    real.foreign("hook")

    async def with_a_stranger() -> None:
        with pytest.raises(Failed) as told:
            await real.runtime.run(made("hook", ENDS), 60.0)
        assert told.value.code == "name_taken"
        assert [one.running for one in await real.runtime.containers()] == [True]

    real.do(with_a_stranger())


@pytest.mark.lab
def test_words_on_stderr_are_marked(real: PodmanScene) -> None:
    async def story() -> None:
        id = await started(real.runtime, "one", ("sh", "-c", "echo bad >&2; sleep 1000"))
        (line,) = await logged(real.runtime, id, 1)
        assert (line.text, line.error) == ("bad", True) and abs(line.at_s - time.time()) < 60

    real.do(story())


@pytest.mark.lab
def test_looking_again_costs_one_call(real: PodmanScene, podman: Podman) -> None:
    async def story() -> None:
        for name in ("one", "two"):
            await started(real.runtime, name)
        await real.runtime.containers()
        asked: list[str] = []
        inner = podman._libpod.call

        async def counted(method: str, path: str, **more: Any) -> Any:
            asked.append(path)
            return await inner(method, path, **more)

        podman._libpod.call = counted  # type: ignore[method-assign]
        try:
            assert len(await real.runtime.containers()) == 2
        finally:
            podman._libpod.call = inner  # type: ignore[method-assign]
        assert asked == ["containers/json"]

    real.do(story())


# ---- podman's service -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def another(node: ThrowAway, tmp_path: Path) -> AsyncIterator[OpenRuntime]:
    """A second podman of the same store, with a run directory and so a service of its own."""
    podman = OpenRuntime(Podman(None, str(tmp_path), environ=node.environ, command=node.command))
    try:
        yield podman
    finally:
        await podman.close()


def service_pid(tmp_path: Path) -> int:
    return int((tmp_path / "podman.sock.pid").read_text().split()[0])


def stands_still(pid: int) -> bool:
    """The signal to stop reaches one thread after the other."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


@pytest.mark.lab
def test_a_killed_service_is_started_again_and_nobody_notices(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        id = await started(real.runtime, "one")
        async with another(real.node, tmp_path) as podman:
            assert await podman.version() == "podman 4.3.1"
            waiting = asyncio.create_task(podman.changed(60.0))
            await asyncio.sleep(1.0)  # it listens by then, or notices the gap when it asks
            first = service_pid(tmp_path)
            os.kill(first, signal.SIGKILL)
            while known(first) is not None:
                await asyncio.sleep(0.01)
            await asyncio.gather(*(podman.version() for _ in range(5)))
            assert (await seen(podman, id)).running
            assert [one.pid for one in with_argument(f"unix://{tmp_path}/podman.sock")] == [service_pid(tmp_path)]
            assert await waiting, "whoever waits is woken after a gap"
            last = service_pid(tmp_path)
        assert known(last) is None and list(tmp_path.iterdir()) == []

    real.do(story())


@pytest.mark.lab
def test_a_service_that_hangs_is_told_soon_and_one_that_is_slow_is_waited_for_t9(
    real: PodmanScene, tmp_path: Path
) -> None:
    """A stopped process still accepts connections: with a look every ten seconds, the truth is shown within 15."""

    async def story() -> None:
        id = await started(real.runtime, "one")
        async with another(real.node, tmp_path) as podman:
            assert (await seen(podman, id)).running
            pid = service_pid(tmp_path)
            os.kill(pid, signal.SIGSTOP)
            try:
                wait_until(lambda: stands_still(pid), "none of its threads runs any more")
                watch = Stopwatch()
                with pytest.raises(TryLater, match="timed out"):
                    await podman.containers()
                assert watch.within(4.9), watch
                slow = asyncio.create_task(podman.containers())
                await asyncio.sleep(1.5)
                assert not slow.done()
            finally:
                os.kill(pid, signal.SIGCONT)
            assert id in {one.id for one in await slow}

    real.do(story())


class _NoEvents:
    """In place of a Libpod whose service is gone."""

    @asynccontextmanager
    async def open(self, *ignored: object, **more: object) -> AsyncIterator[None]:
        raise TryLater("connection refused", remedy="wait", code="runtime_away")
        yield


def test_when_the_stream_of_events_ends_whoever_waits_is_woken_once_t9(runner: asyncio.Runner) -> None:
    """The end of the service is noticed at once, not by the next look."""

    async def story() -> None:
        happening = Happening(cast(Libpod, _NoEvents()), lambda line: None)
        assert await happening.changed(30.0)
        assert not await happening.changed(2.5), "it is tried again meanwhile"
        await happening.close()

    runner.run(story())


@pytest.mark.lab
def test_a_service_that_outlived_its_agent_is_taken_over(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        dead = Podman(None, str(tmp_path), environ=real.node.environ, command=real.node.command)
        await dead.version()
        await dead._libpod.close()  # killed: it says goodbye to nobody
        async with another(real.node, tmp_path) as podman:
            before = service_pid(tmp_path)
            await podman.version()
            assert service_pid(tmp_path) == before
        assert known(before) is None

    real.do(story())


@pytest.mark.lab
def test_a_call_under_way_when_the_service_dies_is_tried_later(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        async with another(real.node, tmp_path) as podman:
            id = await started(podman, "one", DEAF)
            stopping = asyncio.create_task(podman.stop(id, 20.0))
            await asyncio.sleep(1.5)
            os.kill(service_pid(tmp_path), signal.SIGKILL)
            with pytest.raises(TryLater):
                await stopping
            await podman.stop(id, 0.0)
            assert not (await seen(podman, id)).running
            await podman.remove(id)

    real.do(story())


@pytest.mark.lab
def test_a_service_of_somebody_else_is_neither_started_nor_ended(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        socket = str(tmp_path / "theirs.sock")
        podman = Podman(socket, str(tmp_path))
        with pytest.raises(TryLater) as told:
            await podman.version()
        assert told.value.code == "runtime_away" and "podman" in told.value.remedy
        async with another(real.node, tmp_path) as keeper:
            await keeper.version()
            (tmp_path / "podman.sock").rename(socket)
            assert await podman.version() == "podman 4.3.1"
            await podman.close()
            assert known(service_pid(tmp_path)) is not None

    real.do(story())


class SlowToClose:
    """A podman whose stream of events takes a moment to close."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()

    @asynccontextmanager
    async def open(self, *_: object, **__: object) -> AsyncIterator[None]:
        self.is_open.set()
        try:
            await asyncio.sleep(60)
            yield
        finally:
            await asyncio.sleep(60)


def test_the_time_limit_of_a_close_holds_while_the_stream_of_events_ends() -> None:
    """Awaiting the listener itself, and suppressing that it was cancelled, would hide the end of the time."""

    async def story() -> None:
        podman = SlowToClose()
        happening = Happening(podman, lambda line: None)  # type: ignore[arg-type]
        assert not await happening.changed(0.0)
        await podman.is_open.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await happening.close()

    asyncio.run(story())


def test_a_machine_without_podman_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        podman = Podman(None, str(tmp_path), command=("/nowhere/podman",))
        with pytest.raises(TryLater, match="/nowhere/podman: No such file"):
            await podman.version()
        await podman.close()

    asyncio.run(story())


@pytest.mark.lab
def test_a_service_that_cannot_start_says_why(real: PodmanScene, tmp_path: Path) -> None:
    async def story() -> None:
        broken = {**real.node.environ, "CONTAINERS_STORAGE_CONF": "/nowhere/storage.conf"}
        podman = Podman(None, str(tmp_path), environ=broken, command=real.node.command)
        with pytest.raises(TryLater, match=r"/nowhere/storage\.conf"):
            await podman.version()
        await podman.close()

    real.do(story())


def test_systemds_messages_to_the_agent_do_not_reach_podman(tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = f"env > {said}; exit 1"

    async def story() -> None:
        podman = Podman(
            None,
            str(tmp_path),
            environ={**os.environ, "NOTIFY_SOCKET": "/x", "KEPT": "1"},
            command=("sh", "-c", script),
        )
        with pytest.raises(TryLater):
            await podman.version()
        await podman.close()

    asyncio.run(story())
    assert "KEPT=1" in said.read_text() and "NOTIFY_SOCKET" not in said.read_text()


# ---- pulling --------------------------------------------------------------------------------------------------------


class Shelf:
    """Debian's registry inside the node, behind a password."""

    def __init__(self, node: ThrowAway, room: Path) -> None:
        self.node, self.port = node, free_port()
        self.host = f"127.0.0.1:{self.port}"
        entry = b"w1:" + bcrypt.hashpw(b"pass", bcrypt.gensalt(4))
        (room / "htpasswd").write_bytes(entry + b"\n")
        config = {
            "version": 0.1,
            "log": {"accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(room / "storage")}},
            "auth": {"htpasswd": {"realm": "shelf", "path": str(room / "htpasswd")}},
            "http": {"addr": self.host},
        }
        (room / "config.yml").write_text(json.dumps(config))
        self._process = node.spawn("docker-registry", "serve", str(room / "config.yml"))
        node.await_listener(self.port)
        self.auth_file, self.wrong_file = room / "auth.json", room / "wrong.json"
        for file, pair in ((self.auth_file, b"w1:pass"), (self.wrong_file, b"w1:guess")):
            file.write_text(json.dumps({"auths": {self.host: {"auth": b64encode(pair).decode()}}}))
        digest = room / "digest"
        words = ["--creds", "w1:pass", "--tls-verify=false", "--digestfile", str(digest)]
        node.podman("push", *words, IMAGE, f"{self.host}/app:1")
        self.digest = digest.read_text()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(60)


@pytest.fixture(scope="module")
def shelf(node: ThrowAway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    shelf = Shelf(node, tmp_path_factory.mktemp("shelf"))
    yield shelf
    shelf.end()


async def pulled(shelf: Shelf, reference: str, auth_file: Path | None) -> list[str]:
    podman = await _podman(shelf.node, auth_files=[str(auth_file)] if auth_file else [])
    lines: list[str] = []
    try:
        await podman.pull(reference, lines.append)
        assert await podman.has_image(reference)
    finally:
        await podman._libpod.close()
    return lines


@pytest.mark.lab
def test_an_image_is_pulled_by_its_digest_with_the_nodes_credential(real: PodmanScene, shelf: Shelf) -> None:
    reference = f"{shelf.host}/app@{shelf.digest}"
    lines = real.do(pulled(shelf, reference, shelf.auth_file))
    assert lines[0].startswith("Trying to pull") and "layer 1" in lines, "podman names its layers"

    async def story() -> None:
        id = await started(real.runtime, "one", image=f"{shelf.host}/app:1", digest=shelf.digest)
        assert (await seen(real.runtime, id)).image == reference

    real.do(story())


@pytest.mark.lab
def test_a_reference_with_tag_and_digest_means_the_digest(real: PodmanScene, shelf: Shelf) -> None:
    assert real.do(pulled(shelf, f"{shelf.host}/app:2@{shelf.digest}", shelf.auth_file))


@pytest.mark.lab
@pytest.mark.parametrize("guess", [True, False], ids=["a wrong password", "none"])
def test_without_the_right_credential_nothing_is_pulled(real: PodmanScene, shelf: Shelf, guess: bool) -> None:
    with pytest.raises(Failed) as told:
        real.do(pulled(shelf, f"{shelf.host}/app@{shelf.digest}", shelf.wrong_file if guess else None))
    assert told.value.code == "image_forbidden" and "login" in told.value.remedy and "guess" not in str(told.value)


@pytest.mark.lab
@pytest.mark.parametrize("tail", ["/nobody:1", "/app:2", f"/app@sha256:{'0' * 64}"])
def test_an_image_the_registry_does_not_have_is_said_to_be_missing(real: PodmanScene, shelf: Shelf, tail: str) -> None:
    with pytest.raises(Failed) as told:
        real.do(pulled(shelf, shelf.host + tail, shelf.auth_file))
    assert told.value.code == "image_unknown" and tail in told.value.message


@pytest.mark.lab
def test_a_registry_that_is_away_is_asked_later(real: PodmanScene, shelf: Shelf) -> None:
    with pytest.raises(TryLater) as told:
        real.do(pulled(shelf, f"127.0.0.1:1/app@{shelf.digest}", None))
    assert told.value.code == "registry_away"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("reading manifest 2 in h/app: manifest unknown: manifest unknown", "image_unknown"),
        (
            "unable to retrieve auth token: invalid username/password: unauthorized: authentication required",
            "image_forbidden",
        ),
        ("writing blob: Digest did not match, expected sha256:1, got sha256:2", "image_broken"),
        ('short-name "app" did not resolve to an alias', "image_unknown"),
        ("pinging container registry h: Get: dial tcp: i/o timeout", "registry_away"),
        ("reading blob: received unexpected HTTP status: 503 Service Unavailable", "registry_away"),
        ("pinging container registry h: http: server gave HTTP response to HTTPS client", "registry_plain"),
        ("writing blob: storing blob to file: no space left on device", "disk_full"),
    ],
)
def test_what_a_registry_says_is_put_in_our_words(said: str, code: str) -> None:
    trouble = pulling.trouble("h/app:2", said)
    assert trouble.code == code and trouble.remedy and isinstance(trouble, TryLater) == (code == "registry_away")


# ---- small parts ----------------------------------------------------------------------------------------------------


def test_frames_may_come_in_any_pieces() -> None:
    sent = b"".join(
        bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text
        for stream, text in ((1, b"ab"), (2, b""), (1, b"c\n"))
    )
    for size in range(1, len(sent) + 1):
        frames = Frames()
        got = [pair for start in range(0, len(sent), size) for pair in frames.feed(sent[start : start + size])]
        assert got == [(1, b"ab"), (2, b""), (1, b"c\n")]


def test_a_frame_of_absurd_length_is_refused() -> None:
    with pytest.raises(ValueError):
        list(Frames().feed(b"\x01\0\0\0\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    ("content", "at_s", "text"),
    [
        (b"2026-11-16T04:11:07Z hi\n", 1794802267.0, "hi"),
        (b"2026-11-16T05:11:07.25+01:00 hi  there", 1794802267.25, "hi  there"),
        (b"no stamp\n", 0.0, "no stamp"),
        (b"2026-11-16T04:11:07Z \xff\n", 1794802267.0, "�"),
    ],
)
def test_log_lines_have_their_time_and_text(content: bytes, at_s: float, text: str) -> None:
    assert log_line("id", 2, content) == LogLine("id", at_s, True, text)


def test_nobody_signals_the_first_process_or_nobody_or_a_namesake() -> None:
    assert known(0) is None and known(-1) is None
    first = known(1)
    assert first is not None and not send(first, signal.SIGCONT) and not send(Process(0, 0), signal.SIGCONT)
    child = subprocess.Popen(["sleep", "100"])
    try:
        process = known(child.pid)
        assert process is not None
        assert not send(Process(process.pid, process.started + 1), signal.SIGKILL) and child.poll() is None
        assert send(process, signal.SIGKILL)
        while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":
            time.sleep(0.01)
        assert known(child.pid) is None, "a zombie is not alive"
    finally:
        child.kill()
        child.wait(60)


def test_a_program_with_a_loader_is_not_static(tmp_path: Path) -> None:
    assert not sealed_env.is_static("/bin/ls") and not sealed_env.is_static(str(tmp_path / "nothing"))
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert not sealed_env.is_static(str(tmp_path / "script"))
    assert sealed_env.is_static("/bin/busybox")


def test_without_limits_none_are_asked_for() -> None:
    body = creation.body(made("one"), {"nofile": 5})
    assert body["resource_limits"] == {} and "networks" not in body and "secrets" not in body
    assert body["r_limits"] == [{"type": "nofile", "soft": 5, "hard": 5}]
    assert creation.body(made("one", restart=False), {})["restart_policy"] == "no"


class Told:
    """Answers as podman's list and inspection give them, for one container."""

    def __init__(self, socket: Path, pid: int, started_s: int) -> None:
        self.socket = str(socket)
        row: dict[str, Any] = {
            "Id": "a" * 64,
            "Names": ["one"],
            "State": "running",
            "Created": "2026-11-16T04:05:44.9549Z",
        }
        row |= {"Pid": pid, "StartedAt": started_s}
        row |= {"Ports": [{"container_port": 80, "host_port": 20001, "host_ip": "192.0.2.7", "range": 1}]}
        state = {"Status": "running", "Pid": pid, "StartedAt": datetime.fromtimestamp(started_s, UTC).isoformat()}
        inspected: dict[str, Any] = {"Id": "a" * 64, "Name": "one", "State": state}
        inspected |= {"NetworkSettings": {"Networks": {"podman": {"IPAddress": "10.88.0.9"}}}}
        self._answers: dict[str, Any] = {"containers/json": [row], f"containers/{'a' * 64}/json": inspected}
        self.stumbles = 0

    def add(self, id: str) -> None:
        """Another container is listed."""
        (row,) = self._answers["containers/json"]
        self._answers["containers/json"] = [row, {**row, "Id": id, "Names": ["two"]}]

    async def call(self, method: str, path: str, **more: Any) -> Answer:
        if self.stumbles > 0:
            self.stumbles -= 1
            raise Refused(500, "no such container", "container vanished")
        return Answer(200, json.dumps(self._answers[path]).encode())

    def seen(self) -> Container:
        return asyncio.run(Listing(cast(Libpod, self)).containers())[0]


@pytest.fixture
def sleeper() -> Iterator[int]:
    child = subprocess.Popen(["sleep", "100"])
    yield child.pid
    child.kill()
    child.wait(60)


def test_a_number_that_is_somebody_elses_by_now_is_no_life(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "socket").touch()
    now_s = int(time.time())
    assert Told(tmp_path / "socket", sleeper, now_s).seen().running
    for stranger in (Told(tmp_path / "socket", sleeper, now_s - 100), Told(tmp_path / "socket", 0, now_s)):
        found = stranger.seen()
        assert (found.running, found.phase, found.pid, found.address) == (False, "exited", 0, "")


def test_a_list_that_is_older_than_a_look_at_one_container_ends_nothing(tmp_path: Path, sleeper: int) -> None:
    """It restarted between the two answers: its new process was called dead for as long as it lived."""
    (tmp_path / "socket").touch()
    now_s, first = int(time.time()), subprocess.Popen(["sleep", "100"])
    before, after = (Told(tmp_path / "socket", pid, now_s) for pid in (first.pid, sleeper))
    listing = Listing(cast(Libpod, before))

    async def restart(method: str, path: str, **more: Any) -> Answer:
        """While another container of the list is inspected."""
        if "b" * 64 in path:
            first.kill()
            first.wait(60)
            before.call = after.call  # type: ignore[method-assign]
            found = await listing.container("a" * 64)
            assert found is not None and found.running
            raise Refused(404, "no such container", "it is gone")
        return await Told.call(before, method, path, **more)

    async def story() -> None:
        assert (await listing.containers())[0].running
        before.add("b" * 64)
        before.call = restart  # type: ignore[method-assign]
        await listing.containers()
        (found,) = await listing.containers()
        assert found.running and found.pid == sleeper

    asyncio.run(story())


def test_a_list_that_stumbles_is_asked_for_twice_more(tmp_path: Path, sleeper: int) -> None:
    told = Told(tmp_path / "socket", sleeper, int(time.time()))
    told.stumbles = 2
    assert told.seen().running
    told.stumbles = 3
    with pytest.raises(TryLater, match="vanished"):
        told.seen()


def test_a_rootless_container_is_reached_where_it_is_published(tmp_path: Path, sleeper: int) -> None:
    socket = tmp_path / "socket"
    socket.touch()
    assert Told(socket, sleeper, int(time.time())).seen().address == "10.88.0.9"
    os.chown(socket, 1000, 1000)
    assert Told(socket, sleeper, int(time.time())).seen().address == "192.0.2.7"


# ---- memory alone: its knobs ----------------------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[MemoryScene]:
    scene = MemoryScene()
    yield scene
    scene.end()


def test_a_cut_call_raises_once_before_or_after_it_took_effect(memory: MemoryScene) -> None:
    async def story() -> None:
        memory.memory.cut("create", "one", "before")
        memory.memory.cut("create", "one", "after")
        with pytest.raises(TryLater):
            await memory.runtime.create(made("one"))
        assert await memory.runtime.containers() == []
        with pytest.raises(TryLater):
            await memory.runtime.create(made("one"))
        assert [one.name for one in await memory.runtime.containers()] == ["one"]
        assert await memory.runtime.create(made("one")) == memory.memory.named("one").id

    memory.do(story())


def test_pulls_take_their_time_and_fail_as_told(memory: MemoryScene) -> None:
    async def story() -> None:
        memory.memory.images |= {"a:1": Image(pull_s=30.0), "b:1": Image(trouble=TryLater("away", remedy="wait"))}
        lines: list[str] = []
        await memory.runtime.pull("a:1", lines.append)
        assert await memory.runtime.has_image("a:1") and len(lines) == 3
        with pytest.raises(TryLater, match="away"):
            await memory.runtime.pull("b:1", lines.append)
        with pytest.raises(Failed):
            await memory.runtime.pull("c:1", lines.append)
        assert [(call.verb, call.subject) for call in memory.memory.calls][-2:] == [("pull", "b:1"), ("pull", "c:1")]
        assert memory.memory.calls[-1].at_s - memory.memory.calls[0].at_s == 30.0

    memory.do(story())


def test_nothing_comes_back_by_itself_after_a_power_cut(memory: MemoryScene) -> None:
    async def story() -> None:
        id = await started(memory.runtime, "one")
        memory.memory.power_cut()
        await asyncio.sleep(10.0)
        assert not (await seen(memory.runtime, id)).running
        memory.memory.away = True
        with pytest.raises(TryLater):
            await memory.runtime.containers()
        memory.memory.away = False
        memory.memory.vanish(id)
        assert await memory.runtime.containers() == []

    memory.do(story())


# ---- what an image declares and has

SEEDED = "localhost/seeded:1"
BUILT = f"""FROM {IMAGE}
RUN echo seed > /data/seed && /bin/busybox chown -R 1000:1001 /data && /bin/busybox chmod 0750 /data
USER 1000
VOLUME /data
VOLUME /cache
"""


def seeded(scene: Scene, tmp_path: Path) -> str:
    if isinstance(scene, MemoryScene):
        found = Directory({"seed": b"seed\n"}, (1000, 1001), 0o750)
        scene.memory.images[SEEDED] = Image(volumes=("/data", "/cache"), directories={"/data": found})
        scene.memory.here.add(SEEDED)
    elif isinstance(scene, PodmanScene):
        (tmp_path / "Containerfile").write_text(BUILT)
        scene.node.podman("build", "--network", "none", "--tag", SEEDED, str(tmp_path))
    return SEEDED


def test_an_image_says_which_directories_are_volumes_n14(scene: Scene, tmp_path: Path) -> None:
    image = seeded(scene, tmp_path)
    assert list(scene.do(scene.runtime.image_volumes(image))) == ["/cache", "/data"]
    assert list(scene.do(scene.runtime.image_volumes(IMAGE))) == []
    with pytest.raises(Failed) as failed:
        scene.do(scene.runtime.image_volumes("localhost/missing:1"))
    assert failed.value.code == "image_missing"


def test_a_directory_of_an_image_is_read_with_owner_and_mode_and_leaves_no_container_n13(
    scene: Scene, tmp_path: Path
) -> None:
    image = seeded(scene, tmp_path)

    async def story() -> tuple[list[tuple[Any, ...]], bool]:
        asked = made("reader", image=image)
        async with scene.runtime.image_directory(asked, "/data") as found:
            read = partial(_members, found.tar, found.inside)
            members = await asyncio.get_running_loop().run_in_executor(None, read)
        async with scene.runtime.image_directory(asked, "/not/there") as missing:
            pass
        assert list(await scene.runtime.containers()) == []
        return members, missing is None

    members, is_missing = scene.do(story())
    assert is_missing
    assert members == [("data", True, 0o750, 1000, 1001, b""), ("data/seed", False, 0o644, 1000, 1001, b"seed\n")]


def _members(tar: Any, inside: str) -> list[tuple[Any, ...]]:
    with tarfile.open(fileobj=tar, mode="r|") as archive:
        return [
            (one.name, one.isdir(), one.mode & 0o7777, one.uid, one.gid, _text(archive, one))
            for one in archive
            if (one.name + "/").startswith(inside + "/")
        ]


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    found = archive.extractfile(member)
    return found.read() if found is not None else b""


def test_a_permission_for_another_container_reads_no_image(scene: Scene, tmp_path: Path) -> None:
    asked = made("reader", image=seeded(scene, tmp_path))

    async def story() -> None:
        async with scene.runtime.inner.image_directory(asked, "/data", Allowed("CREATE", "other")):
            pass

    with pytest.raises(NotPermitted):
        scene.do(story())


@pytest.mark.lab
def test_links_in_the_path_lead_within_the_image_n13(real: PodmanScene, tmp_path: Path) -> None:
    seeded(real, tmp_path)
    (tmp_path / "Containerfile").write_text(f"FROM {SEEDED}\nUSER 0\nRUN /bin/busybox ln -s /data /alias\n")
    real.node.podman("build", "--network", "none", "--tag", "localhost/alias:1", str(tmp_path))

    async def story() -> str:
        async with real.runtime.image_directory(made("reader", image="localhost/alias:1"), "/alias") as found:
            return str(found.inside)

    assert real.do(story()) == "data"


@pytest.mark.lab
def test_a_reader_that_stops_half_way_leaves_nothing_behind(real: PodmanScene, tmp_path: Path) -> None:
    """The thread that still reads gets an error, and the container is removed."""
    image = seeded(real, tmp_path)

    async def story() -> None:
        async with real.runtime.image_directory(made("reader", image=image), "/data") as found:
            await asyncio.get_running_loop().run_in_executor(None, found.tar.read, 512)
        with pytest.raises(TryLater):
            await asyncio.get_running_loop().run_in_executor(None, found.tar.read, 64 << 20)
        assert list(await real.runtime.containers()) == []

    real.do(story())


@pytest.mark.lab
def test_a_component_runs_as_the_user_that_it_declares_n13(real: PodmanScene) -> None:
    async def story() -> str:
        spoken = await real.runtime.run(made("who", ("sh", "-c", "/bin/busybox id"), user="1234:4321"), 60.0)
        return str(spoken.output)

    assert "uid=1234" in (said := real.do(story())) and "gid=4321" in said
