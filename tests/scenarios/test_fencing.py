"""Copies that a service left behind: they stop because of the signed epoch, stay, and go by a signed order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.agent.backups.store import Store
from holdfast.cli.services.copies import Copy, copies
from holdfast.errors import Invalid, Unreachable
from holdfast.model.applied import Applied
from holdfast.model.fleet import Service
from holdfast.model.order import OrderResult
from holdfast.model.report import RetiredData
from holdfast.planning.kept_copy import plan_again, plan_kept
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from holdfast.trust import reports
from tests.fleets.agents import Machine, services_of, until
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_moves import Moving, keyed, notes
from tests.scenarios.test_moving import NODES

ADDRESSES = {"w1": "100.64.0.1", "w2": "100.64.0.2", "w3": "100.64.0.3"}
NAME = "main.web.holdfast.internal"
AWAY = Unreachable("the hub is away", remedy="wait", code="unreachable")


class Fenced(Moving):
    def __init__(self, loop: VirtualLoop, service: Service) -> None:
        super().__init__(loop, service)
        made = keyed(service)
        nodes = {name: replace(made.nodes[name], address=address) for name, address in ADDRESSES.items()}
        self.rig = Rig(loop, replace(made, nodes=nodes))
        self.machines = {name: Machine(self.rig, name) for name in NODES}
        self.store = MemoryTarget()
        for machine in self.machines.values():
            machine.backups = replace(machine.backups, passage=self.passage, target=self.store)

    @property
    def applied(self) -> Applied:
        found = self.rig.hub.applied()
        assert found is not None
        return found

    async def ordered(self, node: str, action: str, target: str, **given: str) -> OrderResult:
        journal = self.machines[node].journal
        signed = self.rig.order(node, journal.highest_counter() + 1, action, 900, target, **given)
        id = await self.rig.desk.submit(OPERATOR, signed)
        await until(self.rig, lambda: journal.result_of(id) is not None)
        found = journal.result_of(id)
        assert found is not None
        return found

    async def backed_up(self, target: str) -> Wish:
        """A wish to go on with the newest backup on another node, to which an operator sealed its key."""
        assert (await self.ordered("w1", "backup", "service.web")).outcome == "done"
        store = Store(self.store, self.rig.fleet_id)
        newest = (await store.receipts("web"))[-1]
        name = (await store.key_names("web", 1))[-1]
        key = MemoryOpener(key_of("w1").line).open(await store.read(name))
        sealed = MemorySealer(SeededRandom("operator")).seal(key, [key_of(target).line])
        return Wish("web", target, newest.digest, sealed)

    def commit_move(self, wish: Wish) -> None:
        self.commit(plan_move(wish, self.applied, self.rig.desk.observations()))

    def boot(self, node: str) -> None:
        self.machines[node].hardware.booted += " again"
        self.start(node)

    def left(self, node: str) -> list[RetiredData]:
        return list(services_of(self.agents[node]).section().retired)

    def led(self, *nodes: str) -> set[str]:
        """Where the DNS servers of these nodes lead."""
        return {self.machines[node].name_server.records[NAME] for node in nodes}

    def copies(self) -> list[Copy]:
        now_s = self.rig.clock.now_s()
        return copies(reports.verify(self.rig.desk.nodes(), self.applied, now_s).nodes, self.applied)


def scene(story: Callable[[Fenced], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Fenced(loop, notes())
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await made.runs_on(w1=1)
        made.write("w1", b"first")
        await asyncio.sleep(30)
        watching = asyncio.ensure_future(made.watch_two())
        await story(made)
        for task in (watching, hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(watching, hub, *made.tasks.values(), return_exceptions=True)

    run(main)


def test_the_copy_of_a_node_that_handed_over_is_superseded_w11_c21() -> None:
    async def story(made: Fenced) -> None:
        made.move("w2")
        await made.runs_on(w2=1)
        await asyncio.sleep(90)
        (one,) = made.left("w1")
        assert (one.name, one.state, one.epoch, one.target) == ("web", "superseded", 1, "w2")
        assert len(one.digest) == 64 and made.rig.clock.now_s() - 120 < one.left_s < made.rig.clock.now_s()
        assert [(copy.node, copy.epoch, copy.state, copy.target) for copy in made.copies()] == [
            ("w1", 1, "superseded", "w2"),
            ("w2", 2, "running", ""),
        ]
        assert made.both_s is None

    scene(story)


def test_a_node_that_returns_never_starts_what_runs_elsewhere_by_a_newer_epoch_w11() -> None:
    async def story(made: Fenced) -> None:
        wish = await made.backed_up("w2")
        await made.kill("w1")
        await asyncio.sleep(120)
        made.commit_move(wish)
        await made.runs_on(w2=1)
        made.write("w2", b"newer")
        made.boot("w1")
        await asyncio.sleep(120)
        assert made.both_s is None and await made.running() == {"w2": 1}
        assert (made.page("w1"), made.page("w2")) == (b"first", b"newer"), "its data is kept"
        (one,) = made.left("w1")
        assert (one.state, one.epoch) == ("fenced", 1)
        (stale, runs) = made.copies()
        assert (stale.node, stale.state, stale.epoch, stale.target) == ("w1", "fenced", 1, "w2")
        assert stale.digest == wish.backup and (runs.node, runs.state, runs.epoch) == ("w2", "running", 2)

    scene(story)


def test_a_stale_copy_that_no_hub_could_stop_stops_when_its_node_hears_of_the_newer_epoch() -> None:
    async def story(made: Fenced) -> None:
        wish = await made.backed_up("w2")
        await made.kill("w1")
        await asyncio.sleep(120)
        made.commit_move(wish)
        await made.runs_on(w2=1)
        made.machines["w1"].link.down = AWAY
        made.boot("w1")
        await asyncio.sleep(60)
        assert await made.running() == {"w1": 1, "w2": 1}, "it is cut off, and does not know"
        assert made.led("w2", "w3") == {ADDRESSES["w2"]}
        made.machines["w1"].link.down = None
        await asyncio.sleep(60)
        assert await made.running() == {"w2": 1} and made.page("w1") == b"first"
        assert made.led(*NODES) == {ADDRESSES["w2"]}, "no node removed the record that is another one's by now (C-20)"
        assert [one.state for one in made.left("w1")] == ["fenced"]
        assert "unconfirmed" not in {one.code for one in made.agents["w1"].findings.all()}

    scene(story)


def test_a_stale_copy_is_purged_by_an_order_while_the_service_runs_elsewhere_and_comes_back() -> None:
    async def story(made: Fenced) -> None:
        made.move("w2")
        await made.runs_on(w2=1)
        await asyncio.sleep(60)
        refused = await made.ordered("w2", "purge", "data.web")
        assert refused.outcome != "done" and "is applied on this node" in refused.message
        purge = await made.ordered("w1", "purge", "data.web")
        assert purge.outcome == "done" and made.page("w1") is None and made.page("w2") == b"first"
        (aside,) = made.left("w1")
        assert aside.purge and await made.running() == {"w2": 1}
        back = await made.ordered("w1", "restore-retired", "data.web", purge=aside.purge)
        assert back.outcome == "done" and made.page("w1") == b"first"
        assert [(one.state, one.epoch) for one in made.left("w1")] == [("superseded", 1)]
        assert (await made.ordered("w1", "purge", "data.web", now="yes")).outcome == "done"
        assert made.left("w1") == [] and await made.running() == {"w2": 1} and made.page("w2") == b"first"

    scene(story)


def test_what_was_handed_over_is_not_purged_before_the_other_node_has_it() -> None:
    async def story(made: Fenced) -> None:
        made.move("w2")
        journal = made.machines["w1"].journal
        await until(made.rig, lambda: b'"handover"' in (journal.fact("moves/out/web") or b""))
        await made.kill("w2")
        assert b'"is_taken"' not in (journal.fact("moves/out/web") or b"")
        refused = await made.ordered("w1", "purge", "data.web")
        assert refused.outcome != "done" and "does not have all of it yet" in refused.message
        assert made.page("w1") == b"first"
        made.start("w2")
        await made.runs_on(w2=1)
        await asyncio.sleep(30)
        assert (await made.ordered("w1", "purge", "data.web")).outcome == "done"

    scene(story)


# ---- the way back to a copy


def test_a_service_goes_on_with_the_copy_that_its_former_node_kept() -> None:
    """The node that has it died for good, and there is no backup."""

    async def story(made: Fenced) -> None:
        made.move("w2")
        await made.runs_on(w2=1)
        made.write("w2", b"newer")
        await asyncio.sleep(60)
        await made.kill("w2")
        plan = plan_kept("web", "w1", made.applied)
        assert plan.grade == "destroy" and "what w2 wrote since stays there" in str(plan.changes)
        made.commit(plan)
        await made.runs_on(w1=1)
        assert made.page("w1") == b"first" and made.left("w1") == []
        (one,) = [one for one in await made.machines["w1"].runtime.containers() if one.running]
        assert one.labels["holdfast.epoch"] == "3"
        made.boot("w2")
        await asyncio.sleep(120)
        assert await made.running() == {"w1": 1} and made.both_s is None and made.page("w2") == b"newer"
        assert [(copy.node, copy.state, copy.epoch) for copy in made.copies()] == [
            ("w1", "running", 3),
            ("w2", "fenced", 2),
        ]

    scene(story)


def test_a_node_without_a_copy_does_not_begin_with_nothing() -> None:
    async def story(made: Fenced) -> None:
        await made.kill("w1")
        made.commit(plan_kept("web", "w3", made.applied))
        await asyncio.sleep(120)
        assert await made.running() == {} and made.page("w3") is None

    scene(story)


def test_a_service_that_was_removed_by_accident_comes_back_with_its_data() -> None:
    async def story(made: Fenced) -> None:
        before = made.applied.table
        fleet = keyed(notes())
        nodes = {name: replace(fleet.nodes[name], address=address) for name, address in ADDRESSES.items()}
        made.rig.commit(replace(fleet, nodes=nodes, services={}))
        await asyncio.sleep(60)
        assert await made.running() == {} and [copy.state for copy in made.copies()] == ["retired"]
        with pytest.raises(Invalid, match="ran on w2 before it was removed"):
            plan_again("web", "w2", before, made.applied)
        made.commit(plan_again("web", "w1", before, made.applied))
        await made.runs_on(w1=1)
        assert made.page("w1") == b"first"
        await asyncio.sleep(30)
        assert [(copy.node, copy.state, copy.epoch) for copy in made.copies()] == [("w1", "running", 2)]

    scene(story)
