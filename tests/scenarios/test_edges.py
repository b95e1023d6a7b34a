"""The public routes of an edge, in virtual time over memory.

M-02, M-03, M-25, M-45, M-78 (9–11), M-80…M-88, C-25, D-02, D-27, I-16, I-19, S09.
"""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.adapters.certificates.memory import leaf_of
from holdfast.errors import Failed, TryLater
from holdfast.model.certificate import DAY_S
from holdfast.model.fleet import Timeouts
from holdfast.model.report import EdgeState
from holdfast.model.route import Place
from holdfast.planning import overlay
from tests.fleets.edge_scene import (
    ACME,
    ADDRESSES,
    BLOG,
    DNS,
    DOMAIN,
    OWN_PUBLIC,
    SETTINGS,
    ZONE,
    Scene,
    play,
)

BACKEND = f"app.blog.{ZONE}"


def outcomes(state: EdgeState | None) -> dict[str, str]:
    assert state is not None
    return {one.name: "skipped" if one.message.startswith("skipped: ") else one.outcome for one in state.steps}


def one_of(state: EdgeState | None) -> EdgeState:
    assert state is not None
    return state


async def blog_is_live(scene: Scene) -> None:
    scene.apply("blog")
    scene.serve("blog")
    await scene.run()
    await scene.live()


# ---- setting up


def test_a_route_of_the_manifest_becomes_live_by_itself_step_by_step() -> None:
    """M-02, M-45 (SetupEdgeRoute, ListEdgeRoutes as manifest-driven acts), M-78 (9–11), M-81, M-87."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.serve("blog")
        began_s = scene.loop.time()
        await scene.run()
        await scene.until(lambda: bool(scene.handshake.asked))
        assert scene.loop.time() - began_s <= 0.05
        await scene.live()
        state = one_of(scene.state())
        assert [one.name for one in state.steps] == [
            "domain",
            "name",
            "dns",
            "backend",
            "certificate",
            "route",
            "handshake",
        ]
        assert set(outcomes(state).values()) == {"done"} and state.step == ""
        moments = [one.at_s for one in state.steps]
        assert moments == sorted(moments)
        route = scene.board.edge()[BLOG]
        assert route.backends[0].address == "100.64.0.1" and route.upstream and route.upstream.name == BACKEND
        assert state.certificate is not None and state.certificate.names == (BLOG,)
        assert state.certificate.expires_s - scene.clock.now_s() > 89 * DAY_S and state.certificate.chain == 2
        assert state.certificate.handshake_s > 0 and state.certificate.serial
        assert (state.node, state.address, state.port, state.backend, state.epoch) == (
            "w1",
            "100.64.0.1",
            443,
            BACKEND,
            1,
        )

    play(story)


def test_a_live_route_changes_nothing_in_the_report_and_nothing_in_the_proxy() -> None:
    """Times are moments of change: an unchanged edge has an unchanged report."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        await asyncio.sleep(1)
        told, applied, state = scene.told, len(scene.proxy.applied), scene.state()
        await asyncio.sleep(300)
        assert (scene.told, len(scene.proxy.applied), scene.state()) == (told, applied, state)

    play(story)


def test_a_backend_that_is_not_up_yet_is_waited_for() -> None:
    async def story(scene: Scene) -> None:
        scene.apply("blog")
        await scene.run()
        await asyncio.sleep(4)
        state = one_of(scene.state())
        assert (state.phase, state.step, state.code) == ("waiting", "backend", "backend_unreachable")
        assert outcomes(state)["backend"] == "running" and not scene.board.edge()
        assert scene.codes() == set(), "waiting is no trouble yet"
        scene.serve("blog")
        assert await scene.live() < 5

    play(story)


def test_an_edge_does_not_lead_to_a_worker_that_has_not_heard_of_the_name_yet() -> None:
    """Of a service that runs already its internal name answers; the public one may still be on its way there."""

    async def story(scene: Scene) -> None:
        hostname = scene.apply("blog")
        scene.serve("blog")
        scene.handshake.unknown_hosts.add(hostname)
        await scene.run()
        await asyncio.sleep(5)
        assert scene.phase() == "waiting" and scene.led() == ""
        assert "no route for blog.example.test" in one_of(scene.state()).message
        scene.handshake.unknown_hosts.clear()
        assert await scene.until(lambda: scene.phase() == "live") < 2

    play(story)


def test_a_backend_that_never_comes_is_told_as_failed_and_taken_when_it_comes() -> None:
    """M-83: the step is named; the service runs internally and is not public. It heals by itself."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        await scene.run()
        took_s = await scene.until(lambda: scene.phase() == "failed")
        assert 29.5 < took_s < 31
        state = one_of(scene.state())
        assert state.step == "backend" and state.remedy and outcomes(state)["route"] == "skipped"
        await asyncio.sleep(1)
        assert "edge_route_failed" in scene.codes()
        scene.serve("blog")
        assert await scene.live() < 11
        await asyncio.sleep(1)
        assert scene.codes() == set()

    play(story)


def test_the_same_revision_again_tries_again_at_once() -> None:
    """M-83: recovery is an idempotent re-run of deploy or sync."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        await scene.run()
        await asyncio.sleep(300)
        scene.serve("blog")
        scene.follow()
        assert await scene.live() < 0.1

    play(story)


def test_dns_that_fails_gates_the_edge_and_says_so_d_27() -> None:
    """D-27: the route is not attempted, the rest is skipped with the reason; it goes on when DNS is back."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.serve("blog")
        del scene.resolver.known[DNS]
        await scene.run()
        await scene.until(lambda: scene.phase() == "failed")
        state = one_of(scene.state())
        assert (state.step, state.code) == ("dns", "dns_differs") and "cannot be resolved" in state.dns_trouble
        assert [name for name, outcome in outcomes(state).items() if outcome == "skipped"] == [
            "backend",
            "certificate",
            "route",
            "handshake",
        ]
        reasons = [one.message for one in state.steps if one.message.startswith("skipped: ")]
        assert all("dns failed" in reason for reason in reasons)
        assert scene.handshake.asked == [] and not scene.board.edge() and scene.shelf.names() == ()
        await asyncio.sleep(1)
        assert {"dns_differs", "edge_route_failed"} <= scene.codes()
        scene.resolver.known[DNS] = scene.records
        assert await scene.live() < 11
        await asyncio.sleep(1)
        assert scene.codes() == set()

    play(story)


def test_where_no_dns_is_served_the_signed_record_is_believed() -> None:
    async def story(scene: Scene) -> None:
        scene.dns_servers = ()
        scene.resolver.known = {"": scene.public_records}
        await blog_is_live(scene)
        assert all(server == "" for server, _ in scene.resolver.asked)

    play(story)


@pytest.mark.parametrize("by_acme", [False, True])
def test_a_certificate_that_fails_registers_no_route_m_84(by_acme: bool) -> None:
    """M-84, D-02 (step 10), I-16: told at once, with the step and the authority's own words."""

    async def story(scene: Scene) -> None:
        if by_acme:
            scene.authority.troubles = [Failed("rejectedIdentifier: not you", remedy="ask somebody", code="acme")]
        else:
            scene.certificates._issuer = None
        scene.apply("blog")
        scene.serve("blog")
        await scene.run()
        assert await scene.until(lambda: scene.phase() == "failed") < 1
        state = one_of(scene.state())
        assert (state.step, state.code) == ("certificate", "certificate_failed")
        assert outcomes(state)["route"] == "skipped" and not scene.board.edge() and not scene.proxy.told
        await asyncio.sleep(1)
        assert "certificate_failed" in scene.codes()
        if by_acme:
            await scene.live(at_most_s=600)
            assert len(scene.authority.orders) == 2, "an authority that refused is asked rarely"

    play(story, ACME) if by_acme else play(story)


@pytest.mark.parametrize("by_acme", [False, True])
def test_the_own_issuer_signs_while_the_backend_is_waited_for_and_an_authority_outside_does_not(by_acme: bool) -> None:
    """Issue 14, speed: it was issued after the backend had answered."""

    async def story(scene: Scene) -> None:
        hostname = scene.apply("blog")
        await scene.run()
        await asyncio.sleep(2)
        state = one_of(scene.state())
        assert (state.phase, state.step) == ("waiting", "backend") and "certificate" not in outcomes(state)
        assert scene.shelf.names() == (() if by_acme else (hostname,)) and not scene.board.edge()
        scene.serve("blog")
        await scene.live()
        assert scene.shelf.names() == (hostname,)

    play(story, ACME) if by_acme else play(story)


def test_a_challenge_is_answered_before_the_order_is_looked_at_and_taken_away_after() -> None:
    """The authority of this scene fetches the token from the running proxy; it would refuse otherwise."""

    async def story(scene: Scene) -> None:
        for service in ("blog", "shop", "wiki"):
            scene.apply(service)
            scene.serve(service)
        await scene.run()
        for service in ("blog", "shop", "wiki"):
            await scene.live(f"{service}.{DOMAIN}")
        tokens = {token for applied in scene.proxy.applied for token in applied.challenges}
        assert len(tokens) == 3 and max(len(applied.challenges) for applied in scene.proxy.applied) > 1
        assert scene.proxy.applied[-1].challenges == {}
        assert one_of(scene.state()).certificate.authority == "acme"  # type: ignore[union-attr]

    play(story, ACME)


def test_an_order_that_is_cut_off_leaves_no_token_behind() -> None:
    async def story(scene: Scene) -> None:
        class Slow:
            async def order(self, settings: object, names: object, answer: object, at_most_s: float) -> object:
                await answer({"t": "k"})  # type: ignore[operator]
                await asyncio.sleep(3600)
                return None

        scene.kept._authority = Slow()  # type: ignore[assignment]
        scene.apply("blog")
        scene.serve("blog")
        await scene.run()
        await asyncio.sleep(1)
        assert scene.proxy.applied[-1].challenges == {"t": "k"}
        scene.edge.clear()
        scene.follow()
        await scene.until(lambda: scene.proxy.applied[-1].challenges == {})
        await scene.until(lambda: scene.state() is None)

    play(story, ACME)


def test_an_order_that_takes_too_long_is_told_while_it_goes_on() -> None:
    async def story(scene: Scene) -> None:
        async def slow(settings: object, names: Sequence[str], answer: object, at_most_s: float) -> tuple[bytes, bytes]:
            await asyncio.sleep(45)
            return scene.authority._signed(names)

        scene.authority.order = slow  # type: ignore[method-assign]
        scene.apply("blog")
        scene.serve("blog")
        await scene.run()
        await asyncio.sleep(31)
        assert (scene.phase(), one_of(scene.state()).step) == ("failed", "certificate")
        assert await scene.live() < 15

    play(story, ACME)


def test_a_certificate_of_another_node_proves_nothing() -> None:
    """Verified against the issuing certificate of that very node, for that very name; nobody else's (M-27)."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.served["w1"][BACKEND] = scene.workers["w2"].issue((BACKEND,), scene.clock.now_s()).chain
        await scene.run()
        await asyncio.sleep(10)
        assert (scene.phase(), one_of(scene.state()).step) == ("waiting", "backend")
        other = f"app.shop.{ZONE}"
        scene.served["w1"][BACKEND] = scene.workers["w1"].issue((other,), scene.clock.now_s()).chain
        await asyncio.sleep(10)
        assert scene.phase() == "waiting" and not scene.board.edge()

    play(story)


def test_what_is_passed_through_needs_an_answer_and_no_certificate() -> None:
    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.amend(BLOG, mode="l4", port=8443)
        await scene.run()
        await asyncio.sleep(1)
        assert scene.phase() == "waiting"
        scene.served["w1"][BLOG] = scene.certificates.issue((BLOG,), scene.clock.now_s()).chain
        scene.proxy.shows[BLOG] = scene.served["w1"][BLOG]
        await scene.live()
        state = one_of(scene.state())
        assert state.certificate is None and "certificate" not in outcomes(state) and scene.shelf.names() == ()
        assert scene.board.edge()[BLOG].upstream is None

    play(story)


# ---- what may not be served


@pytest.mark.parametrize(
    "hostname",
    [
        "blog.evilexample.test",
        "blog.example.test.",
        "blog.example.test.evil.net",
        "*.example.test",
        "Blog.example.test",
        "bläg.example.test",
        "203.0.113.5",
        "user@blog.example.test",
        "blog..example.test",
        f"blog.{ZONE}",
        "",
    ],
)
def test_a_wrong_hostname_is_refused_by_the_edge_itself_s09(hostname: str) -> None:
    """M-24, S09: whatever a manifest says; nobody is asked for a certificate, and waiting does not help."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.serve("blog")
        scene.edge = {hostname: scene.edge[BLOG]}
        await scene.run()
        await scene.until(lambda: scene.phase(hostname) == "failed", 1)
        state = one_of(scene.state(hostname))
        assert state.step == "domain" and not scene.board.edge() and scene.shelf.names() == ()
        await asyncio.sleep(100)
        assert scene.handshake.asked == []

    play(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "198.51.100.7"},
        {"address": "127.0.0.1"},
        {"address": "w1.example.test"},
        {"address": ""},
        {"backend": "blog.example.test"},
        {"backend": f"blog.evil{ZONE}"},
        {"port": 22},
    ],
)
def test_a_backend_outside_of_the_overlay_is_never_dialled_s09(changes: dict[str, object]) -> None:
    """M-25, C-25, S09."""

    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.serve("blog")
        scene.amend(BLOG, **changes)
        await scene.run()
        await scene.until(lambda: scene.phase() == "failed", 1)
        assert one_of(scene.state()).step == "name"
        await asyncio.sleep(60)
        assert scene.handshake.asked == [] and not scene.board.edge()

    play(story)


def test_whoever_stands_in_must_lie_in_the_overlay_too() -> None:
    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.amend(BLOG, others=(Place("w2", "198.51.100.7"), Place("w3", ADDRESSES["w3"])))
        scene.serve("blog", "w3")
        await scene.run()
        await scene.live()
        assert scene.led() == ADDRESSES["w3"]
        assert all(address != "198.51.100.7" for address, _, _ in scene.handshake.asked)

    play(story)


def test_a_resolver_that_changes_its_answer_moves_no_route_out_of_the_overlay_s09() -> None:
    """Rebinding: right when it is checked, elsewhere when it is used, and back; 0 dials and 0 routes outside."""

    class Rebinding:
        def __init__(self) -> None:
            self.asked = 0

        async def addresses(self, name: str, servers: Sequence[str], at_most_s: float) -> tuple[str, ...]:
            self.asked += 1
            return (ADDRESSES["w1"],) if self.asked % 2 else ("198.51.100.7",)

    async def story(scene: Scene) -> None:
        scene.resolver = Rebinding()  # type: ignore[assignment]
        scene.own_public = ""
        scene.start()
        await blog_is_live(scene)
        await asyncio.sleep(120)
        backends = {one.address for applied in scene.proxy.applied for r in applied.routes for one in r.backends}
        assert backends == {ADDRESSES["w1"]}
        dialled = {address for address, _, _ in scene.handshake.asked} - {"127.0.0.1"}
        assert dialled == {ADDRESSES["w1"]}
        assert all(overlay.outside(address, SETTINGS.overlay_cidr) is None for address in backends)

    play(story)


def test_an_overlay_or_a_domain_that_changed_takes_the_route_away_at_once_i_16() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.settings = replace(SETTINGS, overlay_cidr="10.0.0.0/8")
        scene.follow()
        await scene.until(lambda: scene.led() == "", 1)
        assert (scene.phase(), one_of(scene.state()).step) == ("failed", "name")
        scene.settings = SETTINGS
        scene.follow()
        await scene.live(at_most_s=1)
        scene.settings = replace(SETTINGS, public_domains=("example.org",))
        scene.follow()
        await scene.until(lambda: scene.led() == "", 1)
        assert one_of(scene.state()).step == "domain"

    play(story)


# ---- moving


def test_a_move_keeps_the_old_place_until_the_new_one_has_proven_itself() -> None:
    """M-02, M-03: the same name answers all the time; the report is live for the new node only when it is."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.apply("blog", "w2", epoch=2)
        scene.follow()
        await asyncio.sleep(3)
        assert scene.led() == ADDRESSES["w1"]
        state = one_of(scene.state())
        assert (state.phase, state.node, state.epoch) == ("waiting", "w2", 2)
        scene.serve("blog", "w2")
        await scene.live()
        state = one_of(scene.state())
        assert (scene.led(), state.node, state.epoch) == (ADDRESSES["w2"], "w2", 2)
        led = [applied.routes[0].backends[0].address for applied in scene.proxy.applied if applied.routes]
        assert led == [ADDRESSES["w1"], ADDRESSES["w2"]]
        assert len(scene.shelf.names()) == 1

    play(story)


@pytest.mark.parametrize("named", ["w1", "w2"])
def test_a_hostname_that_its_old_place_serves_has_not_failed_however_long_the_new_one_takes_n67(named: str) -> None:
    """A move copies the data first. After edge_route it was told as failed, visitors waited 10 s for the next try, and
    `migrate` ended with exit 1. `named`: where its internal name leads meanwhile."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.apply("blog", "w2", epoch=2)
        scene.records[BACKEND] = (ADDRESSES[named],)
        scene.follow()
        for _ in range(300):
            await asyncio.sleep(1)
            state = one_of(scene.state())
            assert (state.phase, state.former, state.dns_trouble) == ("waiting", ADDRESSES["w1"], "")
            assert scene.led() == ADDRESSES["w1"] and scene.codes() == set()
        scene.stop("blog", "w1")
        await asyncio.sleep(2)
        assert (one_of(scene.state()).phase, one_of(scene.state()).former) == ("waiting", "")
        scene.serve("blog", "w2")
        scene.records[BACKEND] = (ADDRESSES["w2"],)
        assert await scene.live() < 1
        assert scene.led() == ADDRESSES["w2"] and one_of(scene.state()).former == ""

    play(story)


def test_a_hostname_that_neither_place_serves_has_failed() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.apply("blog", "w2", epoch=2)
        scene.follow()
        await asyncio.sleep(120)
        assert scene.phase() == "waiting"
        scene.stop("blog", "w1")
        assert 29 <= await scene.until(lambda: scene.phase() == "failed") <= 32
        await asyncio.sleep(1)
        assert scene.codes() == {"edge_route_failed"} and scene.led() == ADDRESSES["w1"]

    play(story)


def test_nothing_leads_to_a_copy_of_an_older_epoch_also_while_both_run_w11() -> None:
    """Its node was away while the service began elsewhere with a backup: it may serve, and does not know."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.apply("blog", "w2", epoch=2)
        scene.amend(BLOG, fenced=ADDRESSES["w1"])
        scene.follow()
        await scene.until(lambda: scene.led() == "", 1)
        await asyncio.sleep(60)
        assert scene.led() == "", "the new place does not answer yet, and the old one is not used instead"
        scene.serve("blog", "w2")
        await scene.live()
        await asyncio.sleep(300)
        assert scene.led() == ADDRESSES["w2"]
        scene.stop("blog", "w2")
        await asyncio.sleep(300)
        assert scene.led() == ADDRESSES["w2"], "w1 serves still"
        await scene.kill()
        await scene.run()
        await asyncio.sleep(60)
        led = [route.backends[0].address for applied in scene.proxy.applied for route in applied.routes]
        assert led.index(ADDRESSES["w2"]) == led.count(ADDRESSES["w1"]) == 1

    play(story)


def test_a_new_epoch_on_the_same_node_is_proven_again_and_touches_nothing() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        applied = len(scene.proxy.applied)
        scene.apply("blog", epoch=7)
        scene.follow()
        await scene.until(lambda: one_of(scene.state()).epoch == 7 and scene.phase() == "live", 1)
        assert len(scene.proxy.applied) == applied

    play(story)


# ---- leaving


def test_an_undeployed_route_goes_after_its_backend_and_answers_nobody_else_i_19() -> None:
    """M-85, M-86, I-19, M-45 (RemoveEdgeRoute): stop, then edge, then the record."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.edge.clear()
        scene.follow()
        await asyncio.sleep(20)
        assert scene.phase() == "leaving" and scene.led() == ADDRESSES["w1"] and scene.edges.gone() == ()
        scene.stop("blog")
        assert await scene.until(lambda: scene.state() is None) < 5
        assert scene.led() == "" and scene.edges.gone() == (BLOG,)
        led = {one.address for applied in scene.proxy.applied for r in applied.routes for one in r.backends}
        assert led == {ADDRESSES["w1"]}

    play(story)


def test_a_leaving_route_stays_while_its_worker_has_one_without_a_container_i_19() -> None:
    """N17 made the worker say so to an edge that asks; its container may still be about to end."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.handshake.idle_hosts.add(BLOG)
        del scene.edge[BLOG]
        scene.follow()
        await asyncio.sleep(3)
        assert scene.phase() == "leaving" and scene.led() != ""
        scene.stop("blog")
        assert await scene.until(lambda: scene.state() is None) < 3

    play(story)


def test_a_name_that_only_is_not_public_any_more_goes_at_once() -> None:
    """A service that goes on does not stop to answer: nobody waits for that, least of all who is in a hurry."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        route = scene.edge.pop(BLOG)
        scene.edge["other.example.test"] = route
        scene.follow()
        assert await scene.until(lambda: scene.state() is None) < 2
        assert scene.led() == "" and scene.edges.gone() == (BLOG,)

    play(story)


def test_a_name_that_goes_lets_the_one_go_first_that_comes_in_its_place_but_not_for_long() -> None:
    """Issue 14, speed: beside many routes each change of the proxy takes long, and the new name waited for it."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        other = "other.example.test"
        scene.handshake.unknown_hosts.add(other)  # its worker has not heard of it yet
        scene.edge[other] = scene.edge.pop(BLOG)
        before = len(scene.proxy.applied)
        scene.follow()
        await asyncio.sleep(1)
        assert scene.phase(other) == "waiting" and len(scene.proxy.applied) == before
        scene.handshake.unknown_hosts.clear()
        assert await scene.live(other) < 1
        assert scene.led() == "" and len(scene.proxy.applied) == before + 1, "both in one change"
        scene.handshake.unknown_hosts.add("third.example.test")
        scene.edge["third.example.test"] = scene.edge.pop(other)
        scene.follow()
        assert await scene.until(lambda: scene.led(other) == "") < 3
        assert scene.phase("third.example.test") == "waiting"

    play(story)


def test_a_backend_that_does_not_stop_is_not_waited_for_without_end() -> None:
    async def story(scene: Scene) -> None:
        scene.timeouts = Timeouts(undeploy="2m")
        await blog_is_live(scene)
        scene.edge.clear()
        scene.follow()
        took_s = await scene.until(lambda: scene.state() is None, 200)
        assert 119 < took_s < 125 and scene.edges.gone() == (BLOG,)

    play(story)


def test_a_proxy_that_is_restarted_is_not_taken_for_a_backend_that_is_gone() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.edge.clear()
        scene.follow()
        for _ in range(5):
            scene.stop("blog")
            asked = len(scene.handshake.asked)
            await scene.until(lambda: len(scene.handshake.asked) > asked)  # noqa: B023
            scene.serve("blog")
            await asyncio.sleep(5)
        assert scene.phase() == "leaving" and scene.led() == ADDRESSES["w1"]

    play(story)


def test_a_route_that_comes_back_while_it_leaves_was_never_away() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        applied = len(scene.proxy.applied)
        scene.edge.clear()
        scene.follow()
        await asyncio.sleep(3)
        scene.apply("blog", epoch=2)
        scene.follow()
        await scene.live()
        assert len(scene.proxy.applied) == applied and scene.edges.gone() == ()

    play(story)


def test_a_proxy_that_refuses_to_let_go_is_asked_again() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.edge.clear()
        scene.stop("blog")
        scene.proxy.troubles = [TryLater("busy", remedy="wait") for _ in range(3)]
        scene.follow()
        await scene.until(lambda: scene.state() is None, 20)
        assert scene.led() == ""

    play(story)


# ---- faults of a live route


@pytest.mark.parametrize("hangs", [False, True])
def test_a_silent_backend_is_told_within_15_s_and_keeps_its_route(hangs: bool) -> None:
    """It answers 502 (M-86); nothing is taken away, and all is well again by itself."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        if hangs:
            scene.handshake.hung.add(ADDRESSES["w1"])
        else:
            scene.handshake.troubles[ADDRESSES["w1"]] = "connection refused"
        assert await scene.until(lambda: bool(one_of(scene.state()).backend_trouble)) < 15
        assert scene.phase() == "live" and one_of(scene.state()).code == "backend_unreachable"
        await asyncio.sleep(1)
        assert scene.codes() == {"backend_unreachable"} and scene.led() == ADDRESSES["w1"]
        (found,) = scene.findings.all()
        assert found.remedy.endswith(": holdfast node show w1"), "to be pasted (N51)"
        scene.handshake.hung.clear()
        scene.handshake.troubles.clear()
        assert await scene.until(lambda: not one_of(scene.state()).backend_trouble) < 15
        await asyncio.sleep(1)
        assert scene.codes() == set()

    play(story)


def test_a_backend_without_a_container_that_answers_is_not_reached_n17() -> None:
    """The proxy of its node says so to the edge. That node has the finding, with the reason: the edge has none."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        hostname = one_of(scene.state()).hostname
        scene.handshake.idle_hosts.add(hostname)
        assert await scene.until(lambda: bool(one_of(scene.state()).backend_trouble)) < 15
        state = one_of(scene.state())
        assert (state.phase, state.code, state.remedy) == ("live", "backend_down", "holdfast ps blog")
        assert "no container that answers" in state.backend_trouble and scene.led() == ADDRESSES["w1"]
        await asyncio.sleep(1)
        assert scene.codes() == set()
        scene.handshake.idle_hosts.clear()
        assert await scene.until(lambda: not one_of(scene.state()).backend_trouble) < 4, "it is asked again soon"

    play(story)


def test_no_name_becomes_public_before_a_container_answers_n17() -> None:
    async def story(scene: Scene) -> None:
        hostname = scene.apply("blog")
        scene.serve("blog")
        scene.handshake.idle_hosts.add(hostname)
        await scene.run()
        await asyncio.sleep(5)
        state = one_of(scene.state())
        assert (state.phase, state.step, state.code, scene.led()) == ("waiting", "backend", "backend_down", "")
        scene.handshake.idle_hosts.clear()
        assert await scene.until(lambda: scene.phase() == "live") < 2

    play(story)


def test_a_backend_that_stays_silent_is_asked_less_and_less_often() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.handshake.troubles[ADDRESSES["w1"]] = "connection refused"
        await scene.until(lambda: bool(one_of(scene.state()).backend_trouble))
        await asyncio.sleep(30)
        scene.handshake.asked.clear()
        await asyncio.sleep(90)
        asked = [one for one in scene.handshake.asked if one[0] == ADDRESSES["w1"]]
        assert 9 <= len(asked) <= 11

    play(story)


def test_dns_that_leads_elsewhere_is_told_and_moves_nothing() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.records[BACKEND] = ("198.51.100.7",)
        assert await scene.until(lambda: bool(one_of(scene.state()).dns_trouble)) < 15
        await asyncio.sleep(1)
        assert scene.phase() == "live" and scene.led() == ADDRESSES["w1"] and "dns_differs" in scene.codes()
        scene.records[BACKEND] = (ADDRESSES["w1"],)
        assert await scene.until(lambda: not one_of(scene.state()).dns_trouble) < 15

    play(story)


def test_a_proxy_that_shows_nothing_is_told_within_15_s_and_put_right() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.proxy.stays_silent = True
        assert await scene.until(lambda: scene.phase() != "live") < 15
        assert one_of(scene.state()).step == "handshake"
        await scene.until(lambda: "handshake_failed" in scene.codes(), 5)
        scene.proxy.stays_silent = False
        await scene.live(at_most_s=15)
        await asyncio.sleep(1)
        assert scene.codes() == set()

    play(story)


def test_a_proxy_that_lost_everything_is_told_again() -> None:
    """M-116: whoever else restores it, this keeper does so too."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.proxy.lose()
        await scene.until(lambda: scene.led() == ADDRESSES["w1"], 15)

    play(story)


def test_a_proxy_that_shows_an_old_certificate_is_told_the_current_one_again() -> None:
    """The certificate that is served is compared by a real handshake, not by what was written (M-88)."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        old = scene.certificates.issue((BLOG,), scene.clock.now_s()).chain
        scene.proxy.shows[BLOG] = old
        applied = len(scene.proxy.applied)
        await scene.until(lambda: scene.phase() != "live", 15)
        await scene.until(lambda: len(scene.proxy.applied) > applied, 15)
        scene.proxy.shows.clear()
        await scene.live(at_most_s=15)

    play(story)


def test_whoever_stands_in_serves_while_the_own_node_is_silent_and_no_longer() -> None:
    async def story(scene: Scene) -> None:
        scene.apply("blog", others=("w2", "w3"))
        scene.serve("blog")
        await scene.run()
        await scene.live()
        scene.handshake.hung.add(ADDRESSES["w1"])
        await asyncio.sleep(20)
        assert scene.led() == ADDRESSES["w1"], "nobody stands in yet"
        scene.serve("blog", "w3")
        assert await scene.until(lambda: scene.led() == ADDRESSES["w3"]) < 15
        await scene.live()
        state = one_of(scene.state())
        assert state.node == "w3" and ADDRESSES["w1"] in state.backend_trouble
        await asyncio.sleep(1)
        assert "backend_unreachable" in scene.codes()
        scene.handshake.hung.clear()
        assert await scene.until(lambda: scene.led() == ADDRESSES["w1"]) < 10
        await asyncio.sleep(1)
        assert scene.codes() == set() and one_of(scene.state()).node == "w1"

    play(story)


def test_a_public_record_that_leads_elsewhere_is_a_warning_only_m_80() -> None:
    async def story(scene: Scene) -> None:
        scene.apply("blog")
        scene.serve("blog")
        scene.public_records[BLOG] = ("198.51.100.7",)
        await scene.run()
        assert await scene.live() < 1
        await asyncio.sleep(1)
        assert one_of(scene.state()).public_dns == "198.51.100.7" and scene.codes() == {"public_dns_differs"}
        asked = scene.resolver.asked.count(("", BLOG))
        await asyncio.sleep(50)
        assert scene.resolver.asked.count(("", BLOG)) == asked, "at most once a minute"
        scene.public_records[BLOG] = ("198.51.100.7", OWN_PUBLIC)
        await asyncio.sleep(25)
        assert one_of(scene.state()).public_dns == "" and scene.codes() == set()

    play(story)


# ---- renewal


@pytest.mark.parametrize("by_acme", [False, True])
def test_a_certificate_is_renewed_at_30_days_and_the_new_one_is_seen_m_88(by_acme: bool) -> None:
    """M-88: the same route with another certificate; the state stays live, the handshake shows the new leaf."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        before = scene.board.edge()[BLOG]
        await asyncio.sleep(1)
        phases: set[str] = set()
        scene.edges._tell = lambda: phases.add(scene.phase())
        scene.clock.skew_s += 59 * DAY_S
        await asyncio.sleep(60)
        assert scene.board.edge()[BLOG] == before
        scene.clock.skew_s += 1.1 * DAY_S
        for node in scene.served:  # workers renew theirs
            scene.serve("blog", node) if scene.served[node] else None
        await scene.until(lambda: scene.board.edge()[BLOG] != before, 15)
        await scene.live(at_most_s=1)
        after = scene.board.edge()[BLOG]
        assert replace(after, certificate="") == replace(before, certificate="")
        shown = scene.proxy.chain_for(443, BLOG)
        assert shown is not None
        assert scene.kept.seen(BLOG, leaf_of(shown))
        state = one_of(scene.state())
        assert state.certificate is not None and state.certificate.expires_s > scene.clock.now_s() + 89 * DAY_S
        assert "failed" not in phases and "leaving" not in phases

    play(story, ACME) if by_acme else play(story)


def test_a_renewal_that_fails_keeps_what_is_served_and_is_tried_again_rarely() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.serve("blog")
        before = scene.board.edge()[BLOG]
        scene.authority.troubles = [TryLater("gone", remedy="wait") for _ in range(1000)]
        scene.clock.skew_s += 61 * DAY_S
        scene.serve("blog")
        await asyncio.sleep(3600)
        assert scene.board.edge()[BLOG] == before and scene.phase() == "live"
        assert 3 <= len(scene.authority.orders) <= 10
        assert "certificate_failed" in scene.codes()
        scene.authority.troubles.clear()
        await scene.until(lambda: scene.board.edge()[BLOG] != before, 7200)
        await scene.live(at_most_s=5)

    play(story, ACME)


# ---- restarts


def test_an_agent_that_starts_again_tears_nothing_down_and_sets_nothing_anew() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        applied, route = len(scene.proxy.applied), scene.board.edge()[BLOG]
        await scene.kill()
        assert scene.led() == ADDRESSES["w1"]
        await scene.run()
        await scene.live(at_most_s=1)
        await asyncio.sleep(60)
        assert len(scene.proxy.applied) == applied and scene.board.edge()[BLOG] == route

    play(story)


def test_an_agent_that_starts_while_dns_and_backend_are_silent_leaves_the_route_alone() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        await scene.kill()
        scene.handshake.hung.add(ADDRESSES["w1"])
        del scene.resolver.known[DNS]
        await scene.run()
        await scene.live(at_most_s=10)
        state = one_of(scene.state())
        assert state.dns_trouble and state.backend_trouble and scene.led() == ADDRESSES["w1"]
        assert outcomes(state)["dns"] == outcomes(state)["backend"] == "failed"

    play(story)


def test_a_route_that_left_while_the_agent_was_dead_leaves_as_if_it_had_lived_i_19() -> None:
    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        await scene.kill()
        scene.edge.clear()
        await scene.run()
        await asyncio.sleep(10)
        state = one_of(scene.state())
        assert (state.phase, state.service, state.address) == ("leaving", "blog", ADDRESSES["w1"])
        scene.stop("blog")
        await scene.until(lambda: scene.state() is None, 5)
        assert scene.led() == "" and scene.edges.gone() == (BLOG,)

    play(story)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kills=st.lists(st.floats(0.0, 0.03), max_size=4),
    nodes=st.lists(st.sampled_from(("w1", "w2", "")), min_size=1, max_size=4),
    by_acme=st.booleans(),
)
def test_an_agent_killed_anywhere_ends_where_the_last_revision_says(
    kills: list[float], nodes: list[str], by_acme: bool
) -> None:
    """I-16, I-19: at every moment each route leads to a node that was applied, with a certificate for its name."""

    async def story(scene: Scene) -> None:
        await scene.run()
        for epoch, node in enumerate(nodes, 1):
            scene.edge.clear()
            scene.stop("blog", "w1")
            scene.stop("blog", "w2")
            if node:
                scene.apply("blog", node, epoch=epoch)
                scene.serve("blog", node)
            scene.follow()
            await asyncio.sleep(kills[0] if kills else 0.5)
            if kills:
                kills.pop(0)
                await scene.kill()
                await scene.run()
        if nodes[-1]:
            await scene.until(lambda: scene.phase() == "live" and one_of(scene.state()).epoch == len(nodes), 60)
            assert scene.led() == ADDRESSES[nodes[-1]]
        else:
            await scene.until(lambda: scene.state() is None and scene.led() == "", 60)
        named = {ADDRESSES[node] for node in nodes if node}
        for applied in scene.proxy.applied:
            for route in applied.routes:
                assert {one.address for one in route.backends} <= named
                assert scene.certificates.facts(applied.certificates[route.certificate].chain).names == (BLOG,)
            assert applied is not scene.proxy.applied[-1] or not applied.challenges

    play(story, ACME) if by_acme else play(story)


# ---- many


def test_five_hundred_hostnames_in_one_revision() -> None:
    async def story(scene: Scene) -> None:
        names = [scene.apply(f"s{number}", f"w{number % 3 + 1}") for number in range(500)]
        for number in range(500):
            scene.serve(f"s{number}", f"w{number % 3 + 1}")
        await scene.run()
        await scene.until(lambda: sum(one.phase == "live" for one in scene.edges.states()) == 500, 30)
        assert scene.handshake.under_way_max <= 64 and scene.board.edge().keys() == set(names)
        assert len(scene.proxy.applied) < 100, "routes go to the proxy together"
        scene.handshake.at_s.clear()
        await asyncio.sleep(60)
        assert len(scene.handshake.at_s) <= 60 * 40 + 40, "what is only looked at keeps to its pace"
        assert {one.phase for one in scene.edges.states()} == {"live"}

    play(story)


def test_two_hundred_hostnames_tell_a_fault_within_15_s() -> None:
    """One worker of three hangs: every hostname that leads there says so in time, and the others are not held up."""

    async def story(scene: Scene) -> None:
        for number in range(200):
            scene.apply(f"s{number}", f"w{number % 3 + 1}")
            scene.serve(f"s{number}", f"w{number % 3 + 1}")
        await scene.run()
        await scene.until(lambda: sum(one.phase == "live" for one in scene.edges.states()) == 200, 30)
        await asyncio.sleep(60)
        scene.handshake.hung.add(ADDRESSES["w2"])
        ill = {f"s{number}.{DOMAIN}" for number in range(200) if number % 3 == 1}
        took_s = await scene.until(
            lambda: {one.hostname for one in scene.edges.states() if one.backend_trouble} == ill, 30
        )
        assert took_s < 15
        assert len(scene.findings.all()) <= 20, "others have something to tell, too"
        scene.handshake.hung.clear()
        assert await scene.until(lambda: not any(one.backend_trouble for one in scene.edges.states()), 30) < 15
        await asyncio.sleep(1)
        assert scene.findings.all() == ()

    play(story)


def test_a_new_hostname_does_not_wait_for_the_looks_at_five_hundred_others() -> None:
    """Issue 14, speed: its backend was asked again only after each of the others was looked at."""

    async def story(scene: Scene) -> None:
        for number in range(500):
            scene.apply(f"s{number}", f"w{number % 3 + 1}")
            scene.serve(f"s{number}", f"w{number % 3 + 1}")
        await scene.run()
        await scene.until(lambda: sum(one.phase == "live" for one in scene.edges.states()) == 500, 30)
        await asyncio.sleep(60)
        hostname = scene.apply("blog")
        scene.follow()
        await asyncio.sleep(0.1)
        assert scene.phase(hostname) == "waiting"
        scene.serve("blog")
        assert await scene.live(hostname) < 0.3

    play(story)


def test_a_certificate_that_expired_is_not_put_again_i_16() -> None:
    """The authority is gone for good: what is shown is known to be worthless, and nothing like it is put anew."""

    async def story(scene: Scene) -> None:
        await blog_is_live(scene)
        scene.authority.troubles = [TryLater("gone", remedy="wait") for _ in range(1000)]
        scene.clock.skew_s += 91 * DAY_S
        scene.serve("blog")
        applied = len(scene.proxy.applied)
        await scene.until(lambda: scene.phase() == "failed", 120)
        state = one_of(scene.state())
        assert (state.step, state.code) == ("certificate", "certificate_failed")
        await asyncio.sleep(300)
        assert len(scene.proxy.applied) == applied
        scene.authority.troubles.clear()
        await scene.live(at_most_s=700)

    play(story, ACME)


def test_a_public_name_that_nobody_can_resolve_now_is_no_warning() -> None:
    async def story(scene: Scene) -> None:
        del scene.resolver.known[""]
        await blog_is_live(scene)
        await asyncio.sleep(200)
        assert one_of(scene.state()).public_dns == "" and scene.codes() == set()

    play(story)
