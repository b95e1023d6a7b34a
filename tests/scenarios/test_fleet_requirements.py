"""What a whole fleet keeps to, row by row of the requirements: who speaks first, who acts, what is never repeated."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.agent import roles
from holdfast.agent.agent import Agent
from holdfast.agent.local_api.node import LocalAgent
from holdfast.errors import Conflict, Failed, Limited, NotPermitted
from holdfast.hub.orders import queue as order_queue
from holdfast.model.fleet import Fleet, Node
from holdfast.model.manifest import NodeManifest
from holdfast.model.order import ACTIONS, Delivered, HubOrder
from holdfast.wire import faults
from holdfast.wiring import agent_link
from tests.fleets import virtual
from tests.fleets.agents import Lone, Machine, PaperHub, until
from tests.fleets.build import ALICE_SIGNER, small_fleet
from tests.fleets.counts import SOAK
from tests.fleets.desks import OPERATOR, Puppet, Rig, key_of
from tests.fleets.virtual import VirtualLoop
from tests.scenarios.test_agent_accepts import chain
from tests.scenarios.test_agent_orders import CANDIDATES, Scene, deliver, id_of, order

NODES = ("e1", "w1", "w2")


def play(scene: Callable[[Rig], Coroutine[Any, Any, None]], fleet: Fleet | None = None, **chosen: Any) -> None:
    async def main(loop: VirtualLoop) -> None:
        await scene(Rig(loop, fleet, **chosen))

    virtual.run(main)


def on_a_node(scene: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        await scene(Scene(loop))

    virtual.run(main)


def roled(**said: tuple[Any, ...]) -> Fleet:
    return replace(small_fleet(), nodes={name: Node(name, each) for name, each in said.items()})


def placements(rig: Rig) -> dict[str, str]:
    applied = rig.hub.applied()
    assert applied is not None
    return {a: str(e.node) for a, e in applied.table.entries.items() if e.node is not msgspec.UNSET}


# ---- who speaks first, and who acts


def test_in_a_whole_day_the_hub_calls_nobody_and_asks_for_nothing_but_its_closed_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H-35, C-01, I-15: nodes poll, none is dialled, not even one that has fallen silent. M-60: the hub makes no order
    but those of design.md §3, C-04: commits nothing and moves nothing by itself, whatever happens to its nodes."""
    called: list[str] = []
    made: list[HubOrder] = []

    def noted(*said: Any) -> HubOrder:
        made.append(HubOrder(*said))
        return made[-1]

    monkeypatch.setattr(order_queue, "HubOrder", noted)  # where every order of a hub is made

    async def knock(name: str, address: str) -> bool:
        called.append(name)
        return True

    async def scene(rig: Rig) -> None:
        machines = {name: Machine(rig, name) for name in NODES}
        tasks = {name: asyncio.ensure_future(machine.start().run()) for name, machine in machines.items()}
        tasks["hub"] = asyncio.ensure_future(rig.desk.run())
        await asyncio.sleep(3600)
        head, placed = rig.head, placements(rig)
        tasks["w1"].cancel()
        await asyncio.sleep(2 * 3600)
        assert ("node_silent", "node.w1") in rig.told.said
        tasks["w1"] = asyncio.ensure_future(machines["w1"].start().run())
        await asyncio.sleep((21 if SOAK else 3) * 3600)
        assert ("node_back", "node.w1") in rig.told.said
        assert made, "the probe of the silent node, at least"
        assert {each.action for each in made} <= {name for name, rule in ACTIONS.items() if rule.hub_may}
        assert (rig.head, placements(rig)) == (head, placed)
        assert all(not machine.storage.destroyed for machine in machines.values())

    play(scene, small_fleet(("web", "api"), NODES), knock=knock)
    assert called == []


def test_a_node_hears_of_itself_and_of_nobody_it_could_call() -> None:
    """I-15, M-15: one identity each, and no manifest has a way to another node in it."""

    async def scene(rig: Rig) -> None:
        machines = {name: Machine(rig, name) for name in NODES}
        for name, machine in machines.items():
            agent = machine.start()
            await agent.join()
            await agent.turn()
            content = LocalAgent(agent, lambda: (), lambda line: "", machine.clock).manifest()
            assert content is not None
            manifest = msgspec.json.decode(content, type=NodeManifest)
            assert manifest.node == name and all(entry.node == name for entry in manifest.services.values())
            others = {f'"{other}"' for other in NODES if other != name} | {key_of(o).line for o in NODES if o != name}
            assert not [word for word in others if word.encode() in content]
        known = [rig.desk.node_of_key(machine.key.line) for machine in machines.values()]
        assert [(who.kind, who.name) for who in known if who] == [("node", name) for name in NODES]
        assert rig.desk.node_of_key(key_of("hub").line) is None
        w1, w2 = Puppet(rig, "w1"), Puppet(rig, "w2")
        with pytest.raises(NotPermitted, match="w2"):
            await w1.says(node="w2")
        assert (await w2.says()).registered

    fleet = replace(small_fleet({"web": 1, "api": 1, "blog": 1}, NODES))
    play(scene, replace(fleet, nodes={n: replace(each, address=f"100.64.0.{i}") for i, (n, each) in enumerate(
        sorted(fleet.nodes.items()), 1)}))  # fmt: skip


def test_one_agent_polls_follows_runs_and_reports() -> None:
    """H-10: the duty of the loop, all of it over the one line it opened itself. H-21: what is state comes as a
    revision and is converged to, what is not comes as a signed order and is run; both arrive with the same answer."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        machine.storage.contents = {"old": {"a": b"1"}}
        machine.link.keep = True
        agent = machine.start()
        tasks = [asyncio.ensure_future(agent.run()), asyncio.ensure_future(rig.desk.run())]
        await until(rig, lambda: agent.accepting.seen == rig.head)
        rig.commit(small_fleet({"web": 2}, NODES))
        await rig.desk.submit(OPERATOR, rig.order("w1"))
        await asyncio.sleep(120)
        assert agent.accepting.seen == rig.head and agent.accepting.seen.number == 2
        assert [view.state for view in rig.desk.orders("w1", 10).orders] == ["done"]
        said = machine.link.said
        assert sum(message.heartbeat for message in said) >= 4
        assert any(message.report for message in said) and any(message.results for message in said)
        assert machine.storage.contents == {"old": {"a": b"1"}}, "no revision destroys"
        for task in tasks:
            task.cancel()

    play(scene, small_fleet({"web": 1}, NODES))


# ---- what is run once, and what is run any number of times


def test_missed_revisions_are_caught_up_in_one_pass_and_more_passes_change_nothing() -> None:
    """H-23: the loop may run any number of times; whoever missed polls has everything after the next."""

    async def scene(loop: VirtualLoop) -> None:
        fleets = [(small_fleet({"web": version}, ("w1",)), ALICE_SIGNER) for version in range(1, 8)]
        hub = PaperHub(*chain(*fleets))
        lone = Lone(loop, hub)
        agent = await lone.turned()
        assert agent.accepting.seen.number == 7

        def state() -> tuple[object, ...]:
            return lone.acceptance.newest(), lone.journal.entries(), lone.audited(), lone.storage.contents

        before = state()
        for _ in range(50):
            await agent.turn()
        again = await lone.turned(10)
        assert state() == before and again.accepting.seen == agent.accepting.seen

    virtual.run(scene)


def test_what_was_ordered_once_is_never_repeated_by_the_loop() -> None:
    """H-25: drift brings no order back: what it destroyed may be there again, and stays."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        purge = order()
        await deliver(agent, s, purge)
        assert s.lone.storage.destroyed == ["old"]
        s.data["old"] = {"new": b"since then"}
        for _ in range(100):
            await agent.turn()
        again = await s.lone.turned(20)
        s.hub.orders.append(Delivered(7, purge))  # and a hub that sends it once more under a new lease
        await again.turn()
        await again.turn()
        assert s.lone.storage.destroyed == ["old"] and s.data["old"] == {"new": b"since then"}
        assert {result.outcome for result in s.results(id_of(purge))} == {"done"}

    on_a_node(scene)


@pytest.mark.parametrize("action", ["decommission", "break-glass"])
def test_the_jobs_there_are_run_once_or_are_refused_aloud(action: str) -> None:
    """H-24: decommission, break glass; backup, restore and drill are in tests of their own. Each is an order of its
    own, is in the audit log, and what this release cannot do yet it refuses by name and leaves everything as it is."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        before = {name: dict(files) for name, files in s.data.items()}
        target = {"node": "node.w1", "service": "service.web", "data": "data.web"}[ACTIONS[action].target]
        job = order(action, target)
        await deliver(agent, s, job)
        for _ in range(5):
            await agent.turn()
        wanted = ("done", "") if ACTIONS[action].built else ("refused", "not_built")
        assert {(r.outcome, r.code) for r in s.results(id_of(job))} == {wanted}
        lines = [event for event in s.lone.audited() if event[0] == action]
        assert len(lines) == (2 if ACTIONS[action].built else 1), "told once, however often the loop runs"
        if not ACTIONS[action].built:
            assert s.data == before

    on_a_node(scene)


# ---- what decides, and what only tells


@pytest.mark.parametrize("deaf", [False, True], ids=["alerts go out", "alerts fail"])
def test_telling_people_decides_nothing(deaf: bool) -> None:
    """H-34: with every notifier failing the same orders run and the same are refused."""

    async def scene(rig: Rig) -> None:
        if deaf:
            rig.told.failures = [Failed("no network", remedy="wait")] * 1000
        machine = Machine(rig, "w1")
        machine.storage.contents = {"old": {"a": b"1"}, "kept": {"b": b"2"}}
        agent = machine.start()
        silent = Machine(rig, "w2").start()
        tasks = [asyncio.ensure_future(each) for each in (agent.run(), rig.desk.run(), silent.run())]
        await until(rig, lambda: agent.accepting.seen == rig.head)
        await until(rig, lambda: silent.accepting.seen == rig.head)
        tasks[2].cancel()  # there is something to tell
        machine.link.bend = lambda answer: replace(
            answer, orders=(*answer.orders, Delivered(1, None, HubOrder("0" * 32, "w1", "purge", "data.kept")))
        )
        signed = rig.order("w1", action="ping")
        await rig.desk.submit(OPERATOR, signed)
        await asyncio.sleep(300)
        assert bool(rig.told.alerts) is not deaf
        assert ("purge", "data.kept", "refused") in machine.audited() and not machine.storage.destroyed
        assert [view.state for view in rig.desk.orders("w1", 10).orders] == ["done"]
        for task in tasks:
            task.cancel()

    play(scene, small_fleet(("web",), NODES))


def test_the_fleet_has_so_many_nodes_and_no_more() -> None:
    """M-29: `nodes_max` (200 unless the fleet says otherwise); one more is resource_exhausted, and revoking makes
    room."""
    fleet = small_fleet(("web",), NODES)
    assert fleet.settings.nodes_max == 200

    async def scene(rig: Rig) -> None:
        (w1, _) = await rig.joined("w1", "w2")
        third = Puppet(rig, "e1")
        with pytest.raises(Limited, match="at most 2 nodes") as refused:
            await third.join()
        assert faults.status(refused.value, writing=True) == 429 and "nodes_max" in refused.value.remedy
        assert (await Puppet(rig, "w1").says()).registered, "who is in stays in"
        await rig.desk.revoke(OPERATOR, rig.revocation("w1", w1.key.line), "192.0.2.1")
        assert (await third.join()).accepted

    play(scene, replace(fleet, settings=replace(fleet.settings, nodes_max=2)))


# ---- modes and states of an agent


@pytest.mark.parametrize(("said", "asserted", "fits"), [
    (("worker",), "", True), (("worker",), "edge", False), (("edge",), "edge", True), (("edge",), "", True),
])  # fmt: skip
def test_worker_is_the_default_and_proxy_is_what_the_revision_says(
    said: tuple[str, ...], asserted: str, fits: bool
) -> None:
    """T-02, with `--proxy` as an assertion (C-36); an edge alone runs no application."""

    others: tuple[Any, ...] = ("edge",) if said == ("worker",) else ("worker",)
    (candidate,) = chain((roled(x1=said, a1=others), ALICE_SIGNER))

    async def scene(loop: VirtualLoop) -> None:
        lone = Lone(loop, PaperHub(candidate), "x1")
        agent = await lone.turned()
        assert roles.of(agent) == said
        if fits:
            roles.check_role(agent, asserted)
        else:
            with pytest.raises(Conflict, match=r"role edge.* says worker") as refused:
                roles.check_role(agent, asserted)
            assert refused.value.code == "failed_precondition"
        content = LocalAgent(agent, lambda: (), lambda line: "", lone.clock).manifest()
        assert content is not None
        runs = bool(msgspec.json.decode(content, type=NodeManifest).services)
        assert runs is (said == ("worker",)), "the only other node takes it where this one is an edge"

    virtual.run(scene)


def test_an_agent_is_idle_or_processing_and_comes_back_to_idle_however_it_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-03: exactly two states; a revision that is good, one that is refused and an order are worked on, a poll with
    no news is not."""
    states: list[str] = []

    class Watched(Agent):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "state":
                states.append(str(value))
            super().__setattr__(name, value)

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        lone = Lone(loop, hub)
        monkeypatch.setattr(agent_link, "Agent", Watched)
        agent = lone.start()
        await agent.turn()
        assert states == ["idle", "processing", "idle"]
        for _ in range(20):
            await agent.turn()
        assert states == ["idle", "processing", "idle"], "nothing is new"
        hub.orders.append(Delivered(1, order("ping", "node.w1")))
        await agent.turn()
        assert states[3:] == ["processing", "idle"]
        forged = replace(hub.candidates[0], header=hub.candidates[0].header.replace(b'"number":1', b'"number":2'))
        hub.candidates.append(forged)
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(30)
        task.cancel()
        assert states[5:7] == ["processing", "idle"] and states[-1] == "idle"
        assert agent.accepting.seen.number == 1 and agent.findings.all()

    virtual.run(scene)
    assert set(states) == {"idle", "processing"}
