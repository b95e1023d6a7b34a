"""Every proxy takes a whole set of routes at a time: what it has afterwards is that set, or still the one before."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.proxy.memory import KEPT, Applied, MemoryProxy
from holdfast.errors import Failed, HoldfastError
from holdfast.ports.proxy import Backend, Proxy, ProxyRoute


def route(service: str, *ports: int, name: str = "main") -> ProxyRoute:
    backends = tuple(Backend("127.0.0.1", port) for port in ports)
    return ProxyRoute(service, "app", name, "l7", (f"{service}.example",), False, backends)


def by_place(routes: object) -> list[ProxyRoute]:
    assert isinstance(routes, tuple | list)
    return sorted(routes, key=lambda one: (one.service, one.component, one.route))


class Bench(Protocol):
    """A proxy, and how to make its next apply fail and how to make it forget."""

    proxy: Proxy

    def refuse(self) -> None: ...

    def forget(self) -> None: ...


class MemoryBench:
    def __init__(self) -> None:
        self.clock = VirtualClock(1000.0)
        self.proxy: MemoryProxy = MemoryProxy(self.clock)

    def refuse(self) -> None:
        self.proxy.troubles.append(Failed("the proxy refused the set", remedy="look at its log"))

    def forget(self) -> None:
        self.proxy.lose()


@pytest.fixture(params=[MemoryBench], ids=["memory"])
def bench(request: pytest.FixtureRequest) -> Bench:
    make: Callable[[], Bench] = request.param
    return make()


def test_a_new_proxy_has_no_routes(bench: Bench) -> None:
    assert by_place(asyncio.run(bench.proxy.routes())) == []


def test_what_was_applied_is_what_it_has_whatever_the_order(bench: Bench) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001, 20002), route("api", 20003), route("web", 20001, name="admin")])
        assert by_place(await bench.proxy.routes()) == [
            route("api", 20003), route("web", 20001, name="admin"), route("web", 20001, 20002),
        ]  # fmt: skip

    asyncio.run(scene())


def test_a_set_replaces_the_whole_set_before(bench: Bench) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001), route("api", 20003)])
        await bench.proxy.apply([route("web", 20002)])
        assert by_place(await bench.proxy.routes()) == [route("web", 20002)]
        await bench.proxy.apply([])
        assert by_place(await bench.proxy.routes()) == []

    asyncio.run(scene())


def test_a_refused_set_changes_nothing(bench: Bench) -> None:
    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)])
        bench.refuse()
        with pytest.raises(HoldfastError):
            await bench.proxy.apply([route("web", 20002)])
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]
        await bench.proxy.apply([route("web", 20002)])
        assert by_place(await bench.proxy.routes()) == [route("web", 20002)]

    asyncio.run(scene())


def test_a_proxy_that_lost_its_routes_says_so(bench: Bench) -> None:
    """T-12: drift is found by asking, so the answer is what it really has and never what it was once told."""

    async def scene() -> None:
        await bench.proxy.apply([route("web", 20001)])
        bench.forget()
        assert by_place(await bench.proxy.routes()) == []

    asyncio.run(scene())


def test_the_caller_keeps_no_hand_on_what_was_applied(bench: Bench) -> None:
    async def scene() -> None:
        routes = [route("web", 20001)]
        await bench.proxy.apply(routes)
        routes[0] = replace(routes[0], public=True)
        assert by_place(await bench.proxy.routes()) == [route("web", 20001)]

    asyncio.run(scene())


def test_waiting_for_idle_backends_ends_at_once(bench: Bench) -> None:
    started_s = time.monotonic()
    asyncio.run(bench.proxy.drained([Backend("127.0.0.1", 20001)], at_most_s=5.0))
    assert time.monotonic() - started_s < 1.0


# ---- what only the one in memory can tell


def test_every_set_is_remembered_with_its_time_and_the_memory_is_bounded() -> None:
    async def scene() -> None:
        bench = MemoryBench()
        first_s = bench.clock.now_s()
        await bench.proxy.apply([route("web", 20001)])
        bench.clock.advance(2.0)
        await bench.proxy.apply([])
        assert list(bench.proxy.applied) == [Applied(first_s, (route("web", 20001),)), Applied(first_s + 2.0, ())]
        for _ in range(KEPT):
            await bench.proxy.apply([])
        await bench.proxy.drained([Backend("127.0.0.1", n) for n in range(KEPT + 1)], 1.0)
        assert len(bench.proxy.applied) == len(bench.proxy.waited_for) == KEPT

    asyncio.run(scene())
