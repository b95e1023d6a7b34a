"""Several keepers want something of one proxy: put together, acknowledged, and nobody pays for another's mistake."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.proxy.memory import MemoryProxy
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.errors import Failed, Invalid, TryLater
from holdfast.ports.proxy import Backend, Listening, ProxyRoute, Servable
from tests.fleets import virtual
from tests.fleets.build import START_S
from tests.fleets.virtual import VirtualLoop


def route(service: str, port: int = 20_000, public: bool = False, certificate: str = "") -> ProxyRoute:
    names = (f"{service}.example.test",) if public else (f"app.{service}.svc.test",)
    backend = (Backend("127.0.0.1", port),)
    return ProxyRoute(service, "app", "http", "l7", names, public, backend, certificate=certificate or f"of {service}")


def proof(service: str) -> Servable:
    return Servable(f"of {service}", b"chain", b"key")


class Slow(MemoryProxy):
    """Takes a while, and refuses what names a bad service."""

    bad = ""

    async def apply(
        self, routes: Sequence[ProxyRoute], certificates: Mapping[str, Servable], challenges: Mapping[str, str] = {}
    ) -> None:
        await asyncio.sleep(0.1)
        if any(one.service == self.bad for one in routes):
            raise Failed("it does not like it", remedy="none", code="refused")
        await super().apply(routes, certificates, challenges)


def board(loop: VirtualLoop, kept: Mapping[str, Servable] = {}) -> tuple[Slow, ProxyWriter]:
    proxy = Slow(LoopClock(loop, START_S))
    proxy.listening = Listening("127.0.0.1")
    return proxy, ProxyWriter(proxy, lambda found: kept.get(found.certificate))


def served(proxy: MemoryProxy) -> list[str]:
    return [one.service for one in proxy.told]


def test_many_that_come_at_once_go_together() -> None:
    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        names = [f"s{number}" for number in range(20)]
        await asyncio.gather(*(proxy_writer.put(name, [route(name)], [proof(name)]) for name in names))
        assert sorted(served(proxy)) == sorted(names)
        assert len(proxy.applied) == 2  # the first alone, the others in one breath

    virtual.run(story)


def test_many_that_come_one_after_another_make_few_sets() -> None:
    """Issue 14, speed: a set costs the proxy more than anything else of a rollout."""

    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)

        async def later(number: int) -> None:
            await asyncio.sleep(number * 0.1)
            await proxy_writer.put(f"s{number}", [route(f"s{number}")], [proof(f"s{number}")])

        await asyncio.gather(*(later(number) for number in range(20)))
        assert len(served(proxy)) == 20 and len(proxy.applied) <= 11, "each set takes 0.1 s here, and the rest after it"

    virtual.run(story)


def test_a_public_name_that_goes_leaves_with_the_one_that_comes_or_later() -> None:
    """Issue 14, speed: the new name waited for a set without the old one."""

    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        for name in ("a", "b"):
            await proxy_writer.put_edge(f"{name}.example.test", route(name, public=True), proof(name))
        before, began_s = len(proxy.applied), loop.time()
        leaving = asyncio.ensure_future(proxy_writer.put_edge("a.example.test", None, None, asyncio.sleep(5)))
        await asyncio.sleep(0.1)
        await proxy_writer.put_edge("c.example.test", route("c", public=True), proof("c"))
        assert loop.time() - began_s < 0.4 and sorted(served(proxy)) == ["b", "c"]
        await leaving
        assert len(proxy.applied) == before + 1
        await proxy_writer.put_edge("b.example.test", None, None, asyncio.sleep(5))
        assert served(proxy) == ["c"]

    virtual.run(story)


def test_a_withdrawal_that_is_cut_off_leaves_nothing_behind_that_another_change_would_take_along() -> None:
    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        await proxy_writer.put_edge("a.example.test", route("a", public=True), proof("a"))
        leaving = asyncio.ensure_future(proxy_writer.put_edge("a.example.test", None, None, asyncio.sleep(5)))
        await asyncio.sleep(0.1)
        leaving.cancel()
        await asyncio.wait([leaving])
        await proxy_writer.put("b", [route("b")], [proof("b")])
        assert sorted(served(proxy)) == ["a", "b"]

    virtual.run(story)


def test_a_route_that_is_refused_is_its_bringers_trouble_alone() -> None:
    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        proxy.bad = "bad"
        names = ["a", "bad", "b", "c"]
        found = await asyncio.gather(
            *(proxy_writer.put(name, [route(name)], [proof(name)]) for name in names), return_exceptions=True
        )
        assert [isinstance(one, Failed) for one in found] == [False, True, False, False]
        assert sorted(served(proxy)) == ["a", "b", "c"]
        assert proxy_writer.of("bad") == ()

    virtual.run(story)


def test_what_an_earlier_process_told_stays_while_one_service_changes() -> None:
    """A new agent that knew only the service it is about to switch would cut off all others."""

    async def story(loop: VirtualLoop) -> None:
        first, before = board(loop)
        await before.put("a", [route("a")], [proof("a")])
        await before.put_edge("e.example.test", route("e", public=True), proof("e"))
        after = ProxyWriter(first, lambda found: {"of a": proof("a"), "of e": proof("e")}.get(found.certificate))
        await after.put("b", [route("b")], [proof("b")])
        assert sorted(served(first)) == ["a", "b", "e"]
        assert set(after.edge()) == {"e.example.test"}

    virtual.run(story)


def test_a_proxy_that_lost_everything_is_told_again_at_once() -> None:
    """M-116."""

    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        for name in ("a", "b"):
            await proxy_writer.put(name, [route(name)], [proof(name)])
        assert not await proxy_writer.look()
        proxy.lose()
        assert await proxy_writer.look()
        assert served(proxy) == ["a", "b"]

    virtual.run(story)


def test_what_somebody_else_wrote_is_overwritten() -> None:
    """M-07, M-115: one authority for routes."""

    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        await proxy_writer.put("a", [route("a")], [proof("a")])
        await proxy.apply([route("intruder")], {"of intruder": proof("intruder")})
        assert await proxy_writer.look()
        assert served(proxy) == ["a"]

    virtual.run(story)


def test_no_route_without_its_certificate() -> None:
    """I-16."""

    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        with pytest.raises(Failed, match="certificate"):
            await proxy_writer.put("a", [route("a")])
        assert served(proxy) == [] and proxy_writer.of("a") == ()
        await proxy_writer.put("b", [route("b")], [proof("b")])  # and nothing of it is left that would hinder others
        assert served(proxy) == ["b"]

    virtual.run(story)


def test_a_proxy_that_is_away_changes_nothing_that_is_believed() -> None:
    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        await proxy_writer.put("a", [route("a")], [proof("a")])
        proxy.troubles.append(TryLater("away", remedy="wait", code="proxy_down"))
        with pytest.raises(TryLater):
            await proxy_writer.put("a", [route("a", 20_001)], [proof("a")])
        assert proxy_writer.of("a") == (route("a"),)
        await proxy_writer.put("a", [route("a", 20_001)], [proof("a")])
        assert proxy.told == (route("a", 20_001),)

    virtual.run(story)


def test_challenges_are_answered_beside_the_routes() -> None:
    async def story(loop: VirtualLoop) -> None:
        proxy, proxy_writer = board(loop)
        await proxy_writer.put("a", [route("a")], [proof("a")])
        await proxy_writer.answer({"token": "token.thumb"})
        assert dict(proxy.applied[-1].challenges) == {"token": "token.thumb"} and served(proxy) == ["a"]
        await proxy_writer.answer({})
        assert not proxy.applied[-1].challenges

    virtual.run(story)


def test_nothing_is_written_before_it_is_known_what_a_proxy_has() -> None:
    """One that only starts again has its routes on the disk; an agent that took it for empty would wipe them out."""

    async def story(loop: VirtualLoop) -> None:
        proxy, before = board(loop)
        await before.put("a", [route("a")], [proof("a")])
        listening, proxy.listening = proxy.listening, None
        after = ProxyWriter(proxy, lambda found: proof(found.service))
        with pytest.raises(TryLater):
            await after.put("b", [route("b")], [proof("b")])
        proxy.listening = listening
        await after.put("b", [route("b")], [proof("b")])
        assert served(proxy) == ["a", "b"]

    virtual.run(story)


def test_the_certificate_of_a_route_that_only_loses_its_backends_is_found() -> None:
    """As when a service is retired by an agent that has just started: nobody hands its certificate over again."""

    async def story(loop: VirtualLoop) -> None:
        proxy, before = board(loop)
        await before.put("a", [route("a")], [proof("a")])
        after = ProxyWriter(proxy, lambda found: proof(found.service))
        await after.look()
        empty = [replace(one, backends=()) for one in after.of("a")]
        await after.put("a", empty)
        assert proxy.told == tuple(empty)

    virtual.run(story)


def test_where_nobody_knows_what_a_proxy_has_everybody_is_waited_for() -> None:
    """Its note is gone, its routes are not: the first service to come must not be the only one that is left."""

    async def story(loop: VirtualLoop) -> None:
        proxy, before = board(loop)
        for name in ("a", "b"):
            await before.put(name, [route(name)], [proof(name)])
        proxy.forgotten = True
        after = ProxyWriter(proxy, lambda found: None)
        assert not await after.look() and served(proxy) == ["a", "b"], "what runs is left alone"

        async def late() -> None:
            await asyncio.sleep(1)
            await after.put("b", [route("b", 20_001)], [proof("b")])

        await asyncio.gather(after.put("a", [route("a", 20_001)], [proof("a")]), late())
        assert [sorted({one.service for one in each.routes}) for each in proxy.applied][2:] == [["a", "b"]]

    virtual.run(story)


def test_what_a_proxy_was_told_last_is_believed_more_than_what_it_has() -> None:
    """An agent that starts while its proxy hangs, or after somebody touched its files, takes nothing away."""

    async def story(loop: VirtualLoop) -> None:
        proxy, before = board(loop)
        for name in ("a", "b"):
            await before.put(name, [route(name)], [proof(name)])
        proxy.lose()
        after = ProxyWriter(proxy, lambda found: proof(found.service))
        await after.put("c", [route("c")], [proof("c")])
        assert served(proxy) == ["a", "b", "c"]

    virtual.run(story)


def test_two_services_that_swap_a_name_switch_together() -> None:
    """Whoever comes first finds the name taken; it waits, and goes with the other one."""

    class Strict(Slow):
        async def apply(
            self, routes: Sequence[ProxyRoute], certificates: Mapping[str, Servable], challenges: Mapping[str, str] = {}
        ) -> None:
            names = [name for one in routes for name in one.aliases]
            if len(set(names)) != len(names):
                raise Invalid("two routes claim one name", remedy="rename one", code="hostname_taken")
            await super().apply(routes, certificates, challenges)

    def led(service: str, alias: str) -> ProxyRoute:
        return replace(route(service), aliases=(alias,))

    async def story(loop: VirtualLoop) -> None:
        proxy = Strict(LoopClock(loop, START_S))
        proxy.listening = Listening("127.0.0.1")
        proxy_writer = ProxyWriter(proxy, lambda found: proof(found.service))
        await proxy_writer.put("a", [led("a", "x.test")], [proof("a")])
        await proxy_writer.put("b", [led("b", "y.test")], [proof("b")])
        with pytest.raises(TryLater, match="waits"):
            await proxy_writer.put("a", [led("a", "y.test")], [proof("a")])
        assert proxy_writer.of("a") == (led("a", "x.test"),), "it still has what it had"
        await proxy_writer.put("b", [led("b", "x.test")], [proof("b")])
        assert proxy.told == (led("a", "y.test"), led("b", "x.test"))
        await proxy_writer.put("a", [led("a", "y.test")], [proof("a")])  # as its rollout does when it tries again

    virtual.run(story)
