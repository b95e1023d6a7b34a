"""A closed network has no way out, and what listens in it is probed from inside (H-60, ADR 0040)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.prober.inside import InsideProber
from holdfast.adapters.prober.memory import NOTHING, MemoryProber
from holdfast.adapters.runtime.memory import MemoryRuntime
from holdfast.adapters.runtime.podman.runtime import Podman
from holdfast.errors import Failed, NotPermitted
from holdfast.lab import samples
from holdfast.model.container import Container, ContainerSpec, Mount
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed
from holdfast.ports.prober import HealthProber, Verdict
from holdfast.ports.runtime import CreateContainer
from holdfast.reconcile import closed
from tests.fleets.doors import OpenRuntime
from tests.fleets.podman import IMAGE, ThrowAway, throw_away

NETWORK, LABELS = "hf-ffffff-web_drill-1", {"holdfast.fleet": "f" * 16, "holdfast.infrastructure": "drill"}
SLEEPS = ("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")
SERVES = ("sh", "-c", "trap 'exit 0' TERM; mkdir -p /tmp/w/well; cd /tmp/w; echo hello > well/index.html; "
          "httpd -f -p 8080 & wait")  # fmt: skip
LISTENS = "import socket, time; one = socket.create_server(('0.0.0.0', 7070)); time.sleep(1000)"


class Stage:
    """A runtime with a prober, and its containers in one closed network."""

    def __init__(self, runtime: Any, prober: HealthProber) -> None:
        self.runtime = OpenRuntime(runtime)
        self.prober = prober
        self.ids: list[str] = []

    async def begin(self, *components: tuple[str, tuple[str, ...]], **more: Any) -> list[Container]:
        subnet = await self.runtime.closed_network(NETWORK, LABELS)
        places = closed.places(subnet, [name for name, _ in components])
        for (name, command), place in zip(components, places, strict=True):
            spec = ContainerSpec("f" * 16, "web", name, 1, IMAGE, "", command=command, network=NETWORK, **more)
            made = CreateContainer(f"drill-{name}", spec, LABELS, restart=False, closed=place)
            self.ids.append(await self.runtime.create(made))
            await self.runtime.start(self.ids[-1])
        found = [await self.runtime.container(id) for id in self.ids]
        return [one for one in found if one is not None]

    async def probe(self, one: Container, **health: Any) -> Verdict:
        check = Health(**{"timeout": "5s", **health})
        return await self.prober.probe(one, check, Allowed("EXEC", one.id))

    async def end(self) -> None:
        for id in self.ids:
            await self.runtime.stop(id, 0.0)
            await self.runtime.remove(id)
        await self.runtime.remove_network(NETWORK)


@pytest.fixture(scope="module")
def node() -> Iterator[ThrowAway]:
    with throw_away() as node:
        node.load_busybox()
        yield node


@asynccontextmanager
async def in_memory() -> AsyncIterator[Stage]:
    memory = MemoryRuntime(LoopClock(asyncio.get_running_loop(), 1_800_000_000.0))
    memory.here.add(IMAGE)
    stage = Stage(memory, MemoryProber())
    yield stage
    await stage.end()


@asynccontextmanager
async def on_podman(node: ThrowAway) -> AsyncIterator[Stage]:
    podman = Podman(None, node.run_dir, environ=node.environ, command=node.command)
    stage = Stage(podman, InsideProber(podman.connect, podman.exec))
    try:
        try:
            yield stage
        finally:
            await stage.end()
        assert NETWORK not in node.podman("network", "ls", "--format", "{{.Name}}").split()
    finally:
        await podman.close()


Play = Callable[[Callable[[Stage], Any]], None]


@pytest.fixture(params=["memory", pytest.param("podman", marks=pytest.mark.lab)])
def play(request: pytest.FixtureRequest) -> Play:
    def played(story: Callable[[Stage], Any]) -> None:
        async def whole() -> None:
            context = in_memory() if request.param == "memory" else on_podman(request.getfixturevalue("node"))
            async with context as stage:
                await story(stage)

        asyncio.run(whole())

    return played


@pytest.fixture
def real(node: ThrowAway) -> Play:
    def played(story: Callable[[Stage], Any]) -> None:
        async def whole() -> None:
            async with on_podman(node) as stage:
                await story(stage)

        asyncio.run(whole())

    return played


def test_a_network_is_made_once_and_removed_when_no_container_is_in_it(play: Play) -> None:
    async def story(stage: Stage) -> None:
        subnet = await stage.runtime.closed_network(NETWORK, LABELS)
        assert subnet == await stage.runtime.closed_network(NETWORK, LABELS)
        (one,) = await stage.begin(("app", SLEEPS))
        await stage.runtime.remove_network(NETWORK)
        assert subnet == await stage.runtime.closed_network(NETWORK, LABELS), "it is in use"
        assert one.running

    play(story)


def test_two_networks_have_two_subnets(play: Play) -> None:
    async def story(stage: Stage) -> None:
        first = await stage.runtime.closed_network(NETWORK, LABELS)
        second = await stage.runtime.closed_network(f"{NETWORK}-2", LABELS)
        await stage.runtime.remove_network(f"{NETWORK}-2")
        assert first != second

    play(story)


def test_no_connection_begins_without_a_permission_for_this_container(play: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", SLEEPS))
        for wrong in (Allowed("EXEC", "another"), Allowed("START", one.id)):
            with pytest.raises(NotPermitted):
                async with stage.runtime.inner.connect(one, 8080, wrong):
                    pass

    play(story)


def test_nothing_listens_at_a_port_that_no_program_has(play: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", SLEEPS))
        with pytest.raises(ConnectionRefusedError):
            async with stage.runtime.inner.connect(one, 8080, Allowed("EXEC", one.id)) as line:
                await line.receive()

    play(story)


def test_one_that_does_not_run_is_not_well(play: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", SLEEPS))
        await stage.runtime.stop(one.id, 0.0)
        ended = await stage.runtime.container(one.id)
        assert ended is not None
        for check in ({"type": "tcp", "port": 8080}, {"type": "http", "port": 8080}, {"type": "grpc", "port": 8080}):
            found = await stage.probe(ended, **check)
            assert not found.ok and found.why, check

    play(story)


def test_the_prober_in_memory_answers_for_what_runs() -> None:
    one = Container("1", "app", "running", True, address="10.89.0.2")
    allowed = Allowed("EXEC", "1")
    memory = MemoryProber()
    assert asyncio.run(memory.probe(one, Health("tcp", port=1), allowed)).ok
    assert asyncio.run(memory.probe(replace(one, running=False), Health("tcp", port=1), allowed)) == NOTHING


# ---- on podman


@pytest.mark.lab
def test_a_container_reaches_its_own_components_by_name_and_nothing_else(real: Play, node: ThrowAway) -> None:
    """Neither another container, nor any address of the node, nor a name server; and the node does not reach it. That
    the other container answers is asked from a network with a gateway."""
    node.podman("run", "--detach", "--name", "other", IMAGE, *SERVES)
    address = str(node.inspect("other")["NetworkSettings"]["Networks"]["podman"]["IPAddress"])  # type: ignore[index]
    listener = node.spawn(sys.executable, "-c", LISTENS)
    node.await_listener(7070)

    async def story(stage: Stage) -> None:
        app, helper = await stage.begin(("app", SERVES), ("helper", SERVES))
        gateways = {f"{ip.rpartition('.')[0]}.1" for ip in (address, app.address)}
        places = [(address, 8080), *((one, 7070) for one in sorted(gateways))]
        tried = "; ".join(f"nc -w 2 {host} {port} -e /bin/echo && echo reached {host}" for host, port in places)
        found = await stage.runtime.exec(app.id, ["sh", "-c", f"{tried}; true"], 60.0)
        assert "reached" not in found.output, found
        routes = await stage.runtime.exec(app.id, ["sh", "-c", "ip route; ip -6 addr show dev eth0"], 10.0)
        assert "default" not in routes.output and "inet6" not in routes.output, routes
        asked = await stage.runtime.exec(app.id, ["sh", "-c", "nslookup other || echo none"], 60.0)
        assert "none" in asked.output
        hello = await stage.runtime.exec(app.id, ["wget", "-q", "-O", "-", "http://helper:8080/well/"], 30.0)
        assert hello.output == "hello\n", hello
        outer = [*node.inside, "timeout", "3", "busybox", "nc", "-w", "2", helper.address, "8080", "-e", "/bin/echo"]
        child = await asyncio.create_subprocess_exec(*outer, stderr=asyncio.subprocess.DEVNULL)
        assert await child.wait() != 0, "the node has no address there"
        fair = node.podman("run", "--rm", IMAGE, "sh", "-c", f"{tried}; true")
        assert f"reached {address}" in fair and f"reached {address.rpartition('.')[0]}.1" in fair, fair

    try:
        real(story)
    finally:
        listener.kill()
        listener.wait(60)
        node.podman("rm", "--force", "--time", "0", "other")


@pytest.mark.lab
def test_a_network_of_that_name_with_a_way_out_is_refused(real: Play, node: ThrowAway) -> None:
    node.podman("network", "create", "open")

    async def story(stage: Stage) -> None:
        with pytest.raises(Failed, match="with a way out") as told:
            await stage.runtime.closed_network("open", LABELS)
        assert told.value.code == "network_open" and "podman network inspect open" in told.value.remedy

    try:
        real(story)
    finally:
        node.podman("network", "rm", "open")


@pytest.mark.lab
def test_http_is_asked_from_inside(real: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", SERVES))
        async with asyncio.timeout(60):
            while not (well := await stage.probe(one, type="http", path="/well/", port=8080)).ok:
                assert "nothing listens" in well.why, "it has just begun"
        for _ in range(2):
            assert await stage.probe(one, type="http", path="/well/", port=8080) == Verdict(True)
        ill = await stage.probe(one, type="http", path="/gone", port=8080)
        assert ill == Verdict(False, f"{one.address}:8080 answered with status 404")
        none = await stage.probe(one, type="http", path="/", port=8081)
        assert not none.ok and "nothing listens there" in none.why
        unknown = await stage.probe(one, type="http", path="/")
        assert not unknown.ok and "port is not known" in unknown.why
        left = await stage.runtime.exec(one.id, ["ps"], 10.0)
        assert "nc " not in left.output, "no probe leaves a program behind"

    real(story)


@pytest.mark.lab
def test_tcp_is_a_connection_that_the_program_took(real: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", ("sh", "-c", "exec nc -ll -p 8080 -e sleep 1000")))
        async with asyncio.timeout(60):
            while not (well := await stage.probe(one, type="tcp", port=8080)).ok:
                assert "nothing listens" in well.why, "it has just begun"
        assert "nothing listens there" in (await stage.probe(one, type="tcp", port=8081)).why

    real(story)


@pytest.mark.lab
def test_a_program_that_hangs_takes_no_connection(real: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", ("sh", "-c", "exec nc -ll -p 8080 -e echo")))
        async with asyncio.timeout(60):
            while not (await stage.probe(one, type="tcp", port=8080)).ok:
                await asyncio.sleep(0.05)
        os.kill(one.pid, signal.SIGSTOP)
        try:
            hung = await stage.probe(one, type="tcp", port=8080, timeout="300ms")
            assert not hung.ok and "no answer within 300ms" in hung.why, hung
        finally:
            os.kill(one.pid, signal.SIGCONT)

    real(story)


@pytest.mark.lab
def test_grpc_is_asked_from_inside(real: Play) -> None:
    async def story(stage: Stage) -> None:
        mounts = (Mount(samples.program("greeter"), "/bin/greeter", True),)
        (one,) = await stage.begin(("app", ("/bin/greeter",)), mounts=mounts)
        async with asyncio.timeout(60):
            while not (well := await stage.probe(one, type="grpc", port=8080)).ok:
                assert "nothing listens" in well.why, "it has just begun"
        none = await stage.probe(one, type="grpc", port=8081)
        assert not none.ok and "nothing listens there" in none.why
        other = await stage.probe(one, type="http", path="/", port=8080)
        assert not other.ok and "not with HTTP" in other.why

    real(story)


@pytest.mark.lab
def test_a_command_is_a_check_too(real: Play) -> None:
    async def story(stage: Stage) -> None:
        (one,) = await stage.begin(("app", SLEEPS))
        assert (await stage.probe(one, type="exec", cmd=("echo",))).ok
        ill = await stage.probe(one, type="exec", cmd=("sh", "-c", "echo no table; exit 3"))
        assert ill == Verdict(False, "sh: exit code 3: no table")

    real(story)
