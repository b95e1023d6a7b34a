"""Every proxy takes a whole set of routes at a time: what it has afterwards is that set, or still the one before."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.proxy.memory import KEPT, Applied, MemoryProxy
from holdfast.errors import Failed, HoldfastError
from holdfast.ports.proxy import Backend, Listening, Proxy, ProxyRoute, Servable
from tests.fleets.envoy_stage import Issuer, Stage, stage
from tests.fleets.waiting import Stopwatch


def route(service: str, *ports: int, name: str = "main") -> ProxyRoute:
    backends = tuple(Backend("127.0.0.1", port) for port in ports)
    names = (f"{service}-{name}.internal.test",)
    return ProxyRoute(service, "app", name, "l7", names, False, backends, certificate="one")


def by_place(routes: object) -> list[ProxyRoute]:
    assert isinstance(routes, tuple | list)
    return sorted(routes, key=lambda one: (one.service, one.component, one.route))


class Bench(Protocol):
    """A proxy that runs, and how to make its next apply fail and how to make it forget."""

    @property
    def proxy(self) -> Proxy: ...

    @property
    def listening(self) -> Listening: ...

    def refuse(self) -> None: ...

    def forget(self) -> None: ...


class MemoryBench:
    listening = Listening("127.0.0.1")

    def __init__(self) -> None:
        self.clock = VirtualClock(1000.0)
        self.proxy: MemoryProxy = MemoryProxy(self.clock)
        self.proxy.listening = self.listening

    def refuse(self) -> None:
        self.proxy.troubles.append(Failed("the proxy refused the set", remedy="look at its log"))

    def forget(self) -> None:
        self.proxy.lose()


class EnvoyBench:
    def __init__(self, on: Stage) -> None:
        self.proxy = on.another()
        self.listening = on.listening
        self._on = on
        asyncio.run(self._anew())

    async def _anew(self) -> None:
        await self.proxy.follow(self.listening)
        await self.proxy.apply([], {})

    def refuse(self) -> None:
        """Its next set has a certificate that is none; no caller of ours could hand that over."""
        self.proxy.apply = _once(self.proxy.apply)  # type: ignore[assignment,method-assign]

    def forget(self) -> None:
        (self._on.folder / "proxy" / "requests" / "internal.json").unlink()


def _once(apply: Callable[..., object]) -> Callable[..., object]:
    calls = iter([True])

    def refused(routes: list[ProxyRoute], certificates: Mapping[str, Servable], *more: object) -> object:
        if next(calls, False):
            certificates = {name: Servable(name, b"none", b"none") for name in certificates}
        return apply(routes, certificates, *more)

    return refused


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("proxy")) as found:
        yield found


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Servable]:
    """What it is made for is nobody's question here: a proxy believes the proof."""
    made = Issuer(tmp_path_factory.mktemp("issuer")).servable("web-main.internal.test")
    return {"one": made}


@pytest.fixture(params=["memory", "envoy"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return MemoryBench() if request.param == "memory" else EnvoyBench(request.getfixturevalue("real"))


Certificates = Mapping[str, Servable]


def test_a_new_proxy_has_no_routes(bench: Bench) -> None:
    assert by_place(asyncio.run(bench.proxy.routes())) == []


def test_what_was_applied_is_what_it_has_whatever_the_order(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        wanted = [route("web", 20001, 20002), route("api", 20003), route("web", 20001, name="admin")]
        await bench.proxy.apply(wanted, certificates)
        assert by_place(await bench.proxy.routes()) == [
            route("api", 20003), route("web", 20001, name="admin"), route("web", 20001, 20002),
        ]  # fmt: skip

    asyncio.run(scene())


def test_a_set_replaces_the_whole_set_before(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001), route("api", 20003)], certificates)
        await bench.proxy.apply([route("web", 20002)], certificates)
        assert by_place(await bench.proxy.routes()) == [route("web", 20002)]
        await bench.proxy.apply([], {})
        assert by_place(await bench.proxy.routes()) == []

    asyncio.run(scene())


def test_a_refused_set_changes_nothing(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)], certificates)
        bench.refuse()
        with pytest.raises(HoldfastError):
            await bench.proxy.apply([route("web", 20002)], certificates)
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]
        await bench.proxy.apply([route("web", 20002)], certificates)
        assert by_place(await bench.proxy.routes()) == [route("web", 20002)]

    asyncio.run(scene())


def test_no_route_without_its_certificate(bench: Bench, certificates: Certificates) -> None:
    """I-16: not even beside others that have theirs."""

    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)], certificates)
        with pytest.raises(Failed) as refused:
            await bench.proxy.apply(
                [route("web", 20001), replace(route("api", 20003), certificate="two")], certificates
            )
        assert refused.value.code == "no_certificate"
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]

    asyncio.run(scene())


def test_a_proxy_that_lost_its_routes_says_so_and_takes_them_again(bench: Bench, certificates: Certificates) -> None:
    """T-12, M-116: drift is found by asking, so the answer is what it really has and never what it was once told."""

    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)], certificates)
        assert not await bench.proxy.changed(0.0)
        bench.forget()
        assert await bench.proxy.changed(10.0)
        assert by_place(await bench.proxy.routes()) == []
        await bench.proxy.apply([route("web", 20001)], certificates)
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]

    asyncio.run(scene())


def test_the_caller_keeps_no_hand_on_what_was_applied(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        routes = [route("web", 20001)]
        await bench.proxy.apply(routes, certificates)
        routes[0] = replace(routes[0], public=True)
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]

    asyncio.run(scene())


def test_sets_that_come_together_are_taken_one_after_the_other(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        sets = [[route("web", port)] for port in range(20001, 20006)]
        await asyncio.gather(*(bench.proxy.apply(one, certificates) for one in sets))
        assert by_place(await bench.proxy.routes()) in sets

    asyncio.run(scene())


def test_waiting_for_idle_backends_ends_at_once(bench: Bench, certificates: Certificates) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)], certificates)
        await bench.proxy.apply([route("web", 20002)], certificates)
        watch = Stopwatch()
        await bench.proxy.drained([Backend("127.0.0.1", 20001)], at_most_s=30.0)
        assert watch.within(15.0)
        assert by_place(await bench.proxy.routes()) == [route("web", 20002)]

    asyncio.run(scene())


def test_it_says_what_it_is_while_it_runs_and_has_nothing_after(bench: Bench, tmp_path: Path) -> None:
    """T-32, T-34: where no proxy is wanted none is left."""

    async def scene() -> None:
        assert await bench.proxy.version()
        await bench.proxy.follow(None)
        assert await bench.proxy.version() == ""
        assert by_place(await bench.proxy.routes()) == []
        await bench.proxy.follow(None)
        await bench.proxy.follow(bench.listening)
        assert await bench.proxy.version()

    asyncio.run(scene())


# ---- what only the one in memory can tell


def test_every_set_is_remembered_with_its_time_and_the_memory_is_bounded(certificates: Certificates) -> None:
    async def scene() -> None:
        bench = MemoryBench()
        first_s = bench.clock.now_s()
        await bench.proxy.apply([route("web", 20001)], certificates)
        bench.clock.advance(2.0)
        await bench.proxy.apply([], {})
        assert list(bench.proxy.applied) == [
            Applied(first_s, (route("web", 20001),), certificates), Applied(first_s + 2.0, ()),
        ]  # fmt: skip
        for _ in range(KEPT):
            await bench.proxy.apply([], {})
        await bench.proxy.drained([Backend("127.0.0.1", n) for n in range(KEPT + 1)], 1.0)
        assert len(bench.proxy.applied) == len(bench.proxy.waited_for) == KEPT

    asyncio.run(scene())
