"""Hub and agents together: what a service needs is given, delivered, told and taken back on proof only (C-29, I-10)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.agent.agent import Agent
from holdfast.agent.membership import enrol
from holdfast.agent.needs.sweeps import SWEEP_HEARTBEATS
from holdfast.model.cadence import FAST
from holdfast.model.fleet import Fleet, Service
from holdfast.model.need import Need, Provides
from holdfast.model.revision import NodeIdentity
from holdfast.planning.plan import Inputs, plan
from tests.fleets.agents import _NETS, Machine, kill, token, until
from tests.fleets.build import joined, signed
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.needing import HANDLER, needing, needing_fleet
from tests.fleets.virtual import VirtualLoop, run

NODES = ("w1", "w2", "p1")
FIELDS = HANDLER | {"fields": "user password database"}
LOGINS = Provides("p1", "logins", ("web", "shop"), FIELDS, grace="20s")
NEED = Need("db", "logins")
KEY = ("web", "db")


def fleet_of(services: dict[str, Service], provides: tuple[Provides, ...] = (LOGINS,)) -> Fleet:
    made = needing_fleet(services, provides)
    nodes = {name: replace(made.nodes[name], key=key_of(name).line) for name in NODES}
    return replace(made, nodes=nodes, secrets={})


class Scene:
    """Workers w1 and w2, provider p1."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.rig = Rig(loop, fleet_of({}, ()), pace=FAST)
        self.machines = {name: Machine(self.rig, name) for name in NODES}
        both = token(self.rig, "p1", roles=("worker", "provider"))
        self.machines["p1"].membership = enrol(both, key_of("once p1"), key_of("p1"), self.rig.clock.now_s(), "")
        self.net = _NETS[self.rig]
        self.agents: dict[str, Agent] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, node: str) -> None:
        self.net.dead.discard(node)
        self.agents[node] = self.machines[node].start()
        self.tasks[node] = asyncio.ensure_future(self.agents[node].run())

    async def kill(self, node: str) -> None:
        self.net.dead.add(node)
        await kill(self.agents[node], self.tasks[node])

    def apply(self, services: dict[str, Service], provides: tuple[Provides, ...] = (LOGINS,)) -> None:
        fleet = fleet_of(services, provides)
        found = plan(fleet, self.rig.hub.applied(), Inputs(identities=_certified(fleet)))
        self.rig.hub.commit(signed(found))
        self.rig.desk.committed()

    def values(self, node: str) -> dict[str, str]:
        files: Any = self.machines[node].needs.files
        return dict(files.values.get(KEY, {}))

    def state(self, node: str) -> str:
        found = {one.name: one.state for one in self.machines[node].built.needs.needs.section().needs}
        return found.get("db", "")

    async def revoked(self, counter: int, need: str = "db") -> tuple[str, str]:
        signed = self.rig.order("p1", counter, "revoke-grant", 900, "service.web", need=need, consumer="w1")
        id = await self.rig.desk.submit(OPERATOR, signed)

        def result() -> Any:
            return next(one for one in self.rig.desk.orders("p1", 20).orders if one.id == id).result

        await until(self.rig, lambda: result() is not None)
        return result().outcome, result().message

    def grants(self) -> list[tuple[str, int, str]]:
        section = self.machines["p1"].built.needs.grants.section()
        return [(one.node, one.generation, one.state) for one in section.grants]


def _certified(fleet: Fleet) -> dict[str, NodeIdentity]:
    return {name: replace(one, key=key_of(name).line) for name, one in joined(fleet).items()}


def scene(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Scene(loop)
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await asyncio.sleep(5)
        await story(made)
        for task in (hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(hub, *made.tasks.values(), return_exceptions=True)

    run(main)


def test_a_need_is_fulfilled_delivered_and_told() -> None:
    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.state("w1") == "fulfilled")
        values = made.values("w1")
        assert values["user"] in made.net.handler.logins and values.keys() == {"user", "password", "database"}
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        assert {(one, other) for one, other, _ in made.net.calls} == {("w1", "p1")}, "declared pairs only"
        (held,) = made.machines["w1"].built.needs.held()
        assert (held.provider, held.service) == ("p1", "web") and held.handle.startswith("sha256:")

    scene(story)


def test_what_is_not_declared_any_more_is_taken_back_after_the_grace_of_confirmed_absence() -> None:
    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        made.apply({"web": needing()})
        began_s = made.rig.loop.time()
        await until(made.rig, lambda: made.grants() == [])
        assert made.rig.loop.time() - began_s >= 20, "the grace"
        assert made.net.handler.logins == {} and len(made.net.handler.resources) == 1, "the data stays"
        assert made.values("w1") == {} and made.machines["w1"].built.needs.held() == ()

    scene(story)


def test_silence_is_no_absence() -> None:
    """I-10: the node that had it is cut off when it is not declared any more."""

    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        made.net.cuts.add(("w1", "p1"))
        made.apply({"web": needing()})
        await asyncio.sleep(3600)
        assert made.grants() == [("w1", 1, "held")] and len(made.net.handler.logins) == 1
        made.net.cuts.clear()
        await until(made.rig, lambda: made.grants() == [], 300)

    scene(story)


def test_a_provider_that_dies_in_the_middle_makes_one_login_and_one_handle() -> None:
    async def story(made: Scene) -> None:
        await made.kill("p1")
        made.apply({"web": needing(NEED)})
        await asyncio.sleep(10)
        assert made.state("w1") == "waiting"
        made.start("p1")
        await until(made.rig, lambda: made.state("w1") == "fulfilled")
        assert len(made.net.handler.logins) == 1
        await made.kill("p1")
        await made.kill("w1")
        made.start("p1")
        made.start("w1")
        await until(made.rig, lambda: made.values("w1") != {})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        assert len(made.net.handler.logins) == 1

    scene(story)


def test_a_required_need_holds_the_start_until_it_is_fulfilled() -> None:
    async def story(made: Scene) -> None:
        await made.kill("p1")
        made.apply({"web": needing(replace(NEED, required=True))})
        await asyncio.sleep(30)
        assert not [one for one in await made.machines["w1"].runtime.containers() if one.running]
        made.start("p1")
        await until(made.rig, lambda: made.state("w1") == "fulfilled", 300)
        end_s = made.rig.loop.time() + 120
        while not [one for one in await made.machines["w1"].runtime.containers() if one.running]:
            assert made.rig.loop.time() < end_s
            await asyncio.sleep(0.5)

    scene(story)


def test_a_signed_order_ends_a_login_and_a_need_that_is_declared_gets_the_next_one() -> None:
    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        before = made.values("w1")
        await asyncio.sleep(60)
        assert await made.revoked(1) == ("done", "1 credential of need db of web on w1 revoked")
        await until(made.rig, lambda: made.grants() == [("w1", 2, "held")], 300)
        assert made.state("w1") == "fulfilled" and made.values("w1")["user"] != before["user"]
        assert list(made.net.handler.logins) == [made.values("w1")["user"]], "the old login is gone"
        assert len(made.net.handler.resources) == 1, "the data stays"
        await asyncio.sleep(600)
        assert made.grants() == [("w1", 2, "held")], "it asks once"

    scene(story)


def test_a_credential_of_a_need_that_is_not_declared_any_more_is_revoked_by_order_before_its_grace_is_over() -> None:
    async def story(made: Scene) -> None:
        slow = (replace(LOGINS, grace="7d"),)
        made.apply({"web": needing(NEED)}, slow)
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        made.apply({"web": needing()}, slow)
        await until(made.rig, lambda: made.grants() == [("w1", 1, "unused")])
        assert (await made.revoked(1))[0] == "done"
        await asyncio.sleep(300)
        assert made.grants() == [] and made.net.handler.logins == {}
        assert await made.revoked(2) == ("done", "there is no credential of need db of web on w1")

    scene(story)


def test_a_provider_that_denies_a_credential_each_time_makes_no_more_work_than_one_ask_for_each_sweep() -> None:
    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        made.machines["p1"].built.needs.grants._sweeping.unknown = lambda said: said.handles  # type: ignore[method-assign]
        sweep_s, began_s = FAST.heartbeat_s * SWEEP_HEARTBEATS, made.rig.loop.time()
        await asyncio.sleep(20 * sweep_s)
        (held,) = made.machines["w1"].built.needs.needs.section().needs
        assert 1 < held.generation <= 2 + (made.rig.loop.time() - began_s) / sweep_s

    scene(story)


def test_an_order_that_does_not_name_the_need_is_refused() -> None:
    async def story(made: Scene) -> None:
        made.apply({"web": needing(NEED)})
        await until(made.rig, lambda: made.grants() == [("w1", 1, "held")])
        outcome, message = await made.revoked(1, need="")
        assert outcome == "failed" and "names the need" in message
        assert made.grants() == [("w1", 1, "held")]

    scene(story)
