"""Another machine takes the place of a dead node: it starts nothing without its data, restores in order, and the old
machine runs nothing any more when it comes back (issue 16, host loss)."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.agent.agent import Agent
from holdfast.agent.keeper import Revision
from holdfast.agent.membership import enrol
from holdfast.errors import Corrupt, NotPermitted
from holdfast.model import backup_key
from holdfast.model.fleet import Service, Volume
from holdfast.model.invite import Enrolment
from holdfast.model.move_report import MoveStates
from holdfast.model.order import Order, SignedOrder
from holdfast.model.revision import NodeIdentity
from holdfast.planning import replacing
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.replacing import Return
from holdfast.ports.archive import UnpackJob
from holdfast.ports.sealing import CannotOpen
from holdfast.trust import receipts, reports
from tests.fleets import backing_up, virtual
from tests.fleets.agents import DirectLink, Machine, kill, token, until
from tests.fleets.build import ALICE_SIGNER, operator_signer, signed, small_fleet, small_service
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.dying import Dying
from tests.fleets.move_stories import JOURNAL
from tests.fleets.virtual import VirtualLoop

PAGE = "book/page"
SLOW_S = 2.0
DATA = ("vault", "diary", "web")  # in the order in which they are restored


def kept(name: str, **changed: Any) -> Service:
    plain = small_service(name)
    part = replace(plain.components[0], routes=(), volumes=(Volume("book", "/book", protect="backup"),))
    return replace(plain, components=(part,), node="w1", **changed)


def declared() -> Any:
    services = {"vault": kept("vault", tier="core"), "diary": kept("diary"), "web": kept("web")}
    plain = small_service("plain")
    part = replace(plain.components[0], routes=())
    return small_fleet({**services, "plain": replace(plain, components=(part,), node="w1")}, ("w1", "w2"))


class Host(Machine):
    """A machine that joins as w1 with a key of its own."""

    def __init__(self, rig: Rig, key: str, target: MemoryTarget, over: str = "", restores: bool = True) -> None:
        super().__init__(rig, "w1")
        self.key = key_of(key)
        self.link = DirectLink(rig, self.key)
        self.backups = replace(backing_up.ports_of(self.storage, self.key.line, others=self.targets), target=target)
        self.drills = backing_up.drills_of(self.backups)
        self.runtime.files = self.backups.archiver.dumps  # type: ignore[attr-defined]
        made = token(rig, "w1", replaces=bool(over), over=over, id=key)
        self.membership = enrol(made, key_of("once w1"), self.key, rig.clock.now_s(), "", restores and bool(over))

    @property
    def running(self) -> list[str]:
        return sorted(one.seen.service for one in self.runtime._kept.values() if one.seen.running)

    def page(self, service: str) -> bytes:
        return self.storage.contents.get(service, {}).get(PAGE, b"")


class Scene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.target = MemoryTarget()
        self.names = ["w1"]  # of keys
        self.stored: dict[str, bytes] = {}
        self.rig = Rig(loop, declared())
        self.old = Host(self.rig, "w1", self.target)
        self.tasks: dict[Host, tuple[Agent, asyncio.Task[None]]] = {}
        self.hub = loop.create_task(self.rig.desk.run())

    def start(self, host: Host) -> None:
        agent = host.start()
        self.tasks[host] = agent, self.loop.create_task(agent.run())

    async def kill(self, host: Host) -> None:
        await kill(*self.tasks.pop(host))
        host.runtime.power_cut()

    def restart_hub(self) -> None:
        self.hub.cancel()
        for member in self.rig.registry.members.values():
            member.bell.ring()
        self.rig = self.rig.restarted()
        self.hub = self.loop.create_task(self.rig.desk.run())
        for host in self.tasks:
            host.rig = host.link.rig = self.rig

    async def until(self, true: Callable[[], bool], at_most_s: float = 120.0) -> None:
        await until(self.rig, true, at_most_s)

    async def begun(self) -> None:
        """The old machine runs everything, and each service has a backup of what it wrote first."""
        self.start(self.old)
        await self.until(lambda: self.old.running == ["diary", "plain", "vault", "web"])
        self.record()
        for number, name in enumerate(DATA, 1):
            self.old.storage.contents[name][PAGE] = b"first"
            order = self.rig.order("w1", number, "backup", 900, f"service.{name}")
            await self.rig.desk.submit(OPERATOR, order)
            await self.until(lambda: bool(self.old.journal.result_of(order_id(order))))  # noqa: B023
            self.old.storage.contents[name][PAGE] = b"lost"
        self.stored = dict(self.target.objects)

    def record(self) -> None:
        """As an apply does: the key that joined."""
        made = plan(declared(), self.rig.hub.applied(), Inputs({}, {}, identities=self.proven()))
        self.rig.hub.commit(signed(made))
        self.rig.desk.committed()

    def proven(self) -> dict[str, NodeIdentity]:
        applied = self.rig.hub.applied()
        assert applied is not None
        found = reports.verify(self.rig.desk.nodes(), applied, self.rig.clock.now_s())
        return {name: one for name, one in found.identities.proven.items() if name == "w1"}

    def bare(self) -> tuple[str, ...]:
        applied = self.rig.hub.applied()
        assert applied is not None
        found = reports.verify(self.rig.desk.nodes(), applied, self.rig.clock.now_s()).nodes["w1"]
        section = found.section(MoveStates)
        return section.bare if section is not None else ()

    def newcomer(self, key: str = "new", over: str = "w1", **more: Any) -> Host:
        self.names.append(key)
        return Host(self.rig, key, self.target, over=key_of(over).line, **more)

    def newest(self, service: str, host: Host) -> Return:
        """Of those that the first machine made."""
        stored = self.stored
        keys = [backup_key.parse(text) for text in stored]
        last = [key for key in keys if (key.kind, key.service) == ("receipts", service)][-1]
        receipt = receipts.named(stored[last.text], last.digest, self.rig.fleet_id, service).receipt
        for key in keys:
            if (key.kind, key.service, key.generation) == ("keys", service, receipt.generation):
                for one in self.names:
                    with suppress(CannotOpen, Corrupt):
                        plain = MemoryOpener(key_of(one).line).open(stored[key.text])
                        sealed = MemorySealer(SeededRandom(f"operator {self.loop.time()}")).seal(plain, [host.key.line])
                        return Return(service, last.digest, sealed)
        raise AssertionError("no one can open the key")

    def returns(self, host: Host, *names: str, aside: bool = False) -> None:
        """As `holdfast migrate --all --from w1 --to w1` does."""
        applied = self.rig.hub.applied()
        assert applied is not None
        machine = replacing.rekeyed("w1", self.proven()["w1"], "", applied)
        found = [self.newest(name, host) for name in names or DATA]
        self.rig.hub.commit(signed(replacing.plan_returns("w1", machine, found, {}, applied, {}, aside)))
        self.rig.desk.committed()


def order_id(order: SignedOrder) -> str:
    return msgspec.json.decode(order.order, type=Order).id


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        scene = Scene(loop)
        await scene.begun()
        await scene.kill(scene.old)
        await asyncio.sleep(60)
        await story(scene)

    virtual.run(main)


ALL = ["diary", "plain", "vault", "web"]


def test_the_new_machine_starts_nothing_without_its_data_and_restores_in_order() -> None:
    async def story(scene: Scene) -> None:
        new = scene.newcomer()
        scene.start(new)
        await scene.until(lambda: new.running == ["plain"] and scene.bare() == ("diary", "vault", "web"))
        await asyncio.sleep(60)
        assert new.running == ["plain"] and not new.storage.contents, "what has backups never begins with nothing"
        await scene.kill(new)
        scene.start(new)
        await asyncio.sleep(60)
        assert new.running == ["plain"] and not new.storage.contents
        told = {one.address: one.remedy for one in new.built.agent.findings.all() if one.code == "no_data_yet"}
        assert told == dict.fromkeys(
            ("service.diary", "service.vault", "service.web"), "holdfast migrate --all --from w1 --to w1"
        )
        began = slowed(new)
        scene.returns(new)
        await scene.until(lambda: new.running == ALL)
        assert [new.page(name) for name in DATA] == [b"first"] * 3
        await asyncio.sleep(10)
        assert [name for _, name in began] == list(DATA), "tier core first, then by name"
        at_s = [moment for moment, _ in began]
        assert all(later - one > SLOW_S - 0.01 for one, later in itertools.pairwise(at_s)), "one after another"
        assert scene.bare() == () and not new.built.agent.findings.all()

    play(story)


def slowed(host: Host) -> list[tuple[float, str]]:
    """When it begins to unpack the backup of which service."""
    unpack, began = host.backups.archiver.unpack, []

    async def slowly(job: UnpackJob, *given: Any) -> Any:
        began.append((host.rig.loop.time(), job.purpose.service))
        await asyncio.sleep(SLOW_S)
        return await unpack(job, *given)

    host.backups.archiver.unpack = slowly  # type: ignore[method-assign, assignment]
    return began


def test_one_that_fails_holds_up_those_after_it_until_it_gets_another_backup() -> None:
    async def story(scene: Scene) -> None:
        new = scene.newcomer()
        scene.start(new)
        await scene.until(lambda: len(scene.bare()) == 3)
        damaged = [key for key in scene.target.objects if "/diary/" in key and "/packs/" in key]
        taken = {key: scene.target.objects.pop(key) for key in damaged}
        scene.returns(new)
        await scene.until(lambda: new.running == ["plain", "vault"])
        await asyncio.sleep(60)
        assert new.running == ["plain", "vault"], "web waits for diary"
        assert "move_waits" in {one.code for one in new.built.agent.findings.all()}
        scene.target.objects |= taken
        scene.returns(new, "diary")
        await scene.until(lambda: new.running == ALL)
        assert [new.page(name) for name in DATA] == [b"first"] * 3

    play(story)


def test_the_old_machine_runs_nothing_any_more_also_after_a_boot_without_a_hub() -> None:
    async def story(scene: Scene) -> None:
        new = scene.newcomer()
        scene.start(new)
        await scene.until(lambda: len(scene.bare()) == 3)
        scene.returns(new)
        await scene.until(lambda: new.running == ALL)
        scene.start(scene.old)
        await scene.until(lambda: any(name == "replaced" for name, _ in scene.old.said))
        await asyncio.sleep(120)
        assert not set(scene.old.running) & set(DATA), "its key is refused, and the signed invite fences it"
        assert [scene.old.page(name) for name in DATA] == [b"lost"] * 3, "its data stays"
        await scene.kill(scene.old)
        scene.old.link.down = Corrupt("no hub", remedy="none")
        scene.old.hardware.booted = "another boot"
        scene.start(scene.old)
        await asyncio.sleep(300)
        assert not set(scene.old.running) & set(DATA)
        assert new.running == ALL

    play(story)


def test_an_old_machine_that_ran_on_stops_when_it_learns_of_its_successor() -> None:
    async def story(scene: Scene) -> None:
        scene.old.link.down = Corrupt("cut off", remedy="none")
        scene.start(scene.old)
        await scene.until(lambda: set(DATA) <= set(scene.old.running))
        new = scene.newcomer()
        scene.start(new)
        await scene.until(lambda: len(scene.bare()) == 3)
        scene.returns(new)
        await scene.until(lambda: new.running == ALL)
        scene.old.link.down = None
        await scene.until(lambda: not set(scene.old.running) & set(DATA), 600)
        assert [scene.old.page(name) for name in DATA] == [b"lost"] * 3

    play(story)


def test_a_hub_cannot_stop_a_machine_with_a_proof_that_operators_did_not_sign() -> None:
    async def story(scene: Scene) -> None:
        scene.start(scene.old)
        await scene.until(lambda: set(DATA) <= set(scene.old.running))
        succession = scene.old.built.agent._joining._succession
        eve = operator_signer("eve")[1]
        rig, over = scene.rig, key_of("w1").line
        await asyncio.sleep(5)

        def proof(once: str, key: str, node: str = "w1", **changed: Any) -> Enrolment:
            joined_s = {"joined_s": changed["issued_s"] + 60} if "issued_s" in changed else {}
            signer = changed.pop("signer", ALICE_SIGNER)
            invite = rig.invite(node, once, signer, **{"replaces": True, "over": over, **changed})
            return rig.enrolment(invite, node, key_of(key), once, **joined_s)

        own, first = proof("1", "w1"), proof("2", "x", replaces=False, over="")
        forged, other = proof("3", "x", signer=eve), proof("4", "x", "w2")
        older = proof("5", "x", issued_s=rig.now_s() - 3600)
        for successor in (own, forged, first, other, older, None):
            succession.heard(successor)
            assert not succession.is_over
        await asyncio.sleep(30)
        assert set(DATA) <= set(scene.old.running)
        with pytest.raises(NotPermitted, match="another machine took the place of w1"):
            succession.heard(proof("6", "x"))
        left = succession.of(_waiting(scene.old))
        assert (left.manifest.services, left.manifest.standby, left.manifest.handover) == ({}, {}, {})
        assert left.awaited == {}, "nor does it take in data that was on its way here"

    play(story)


def _waiting(one: Any) -> Revision:
    """What it accepted, with a service that waits for its data."""
    found = one.built.agent.accepting.in_force
    entry = next(iter(found.services.values()))
    return Revision(9, found, None, None, {}, {"service.diary": entry})  # type: ignore[arg-type]


def test_data_of_a_disk_that_outlived_the_machine_is_set_aside_only_if_the_operator_says_so() -> None:
    async def story(scene: Scene) -> None:
        new = scene.newcomer()
        new.storage.contents["web"] = {PAGE: b"on the disk"}
        scene.start(new)
        await scene.until(lambda: new.running == ["plain"] and scene.bare() == ("diary", "vault"))
        scene.returns(new, "vault", "diary")
        await scene.until(lambda: new.running == ["diary", "plain", "vault"])
        assert new.page("web") == b"on the disk"
        scene.returns(new, "web")
        await asyncio.sleep(60)
        assert new.page("web") == b"on the disk", "also if the revision asks for a backup, without --force"
        found = [one for one in new.built.agent.findings.all() if one.code == "move_waits"]
        assert "--force" in found[0].remedy
        scene.returns(new, "web", aside=True)
        await scene.until(lambda: new.running == ALL and new.page("web") == b"first")
        asides = [files for name, files in new.storage.contents.items() if "web" in name and name != "web"]
        assert {PAGE: b"on the disk"}.items() <= asides[0].items()

    play(story)


def test_a_machine_that_joined_without_the_flag_begins_with_nothing_and_is_restored_when_its_services_are_stopped() -> (
    None
):
    """A container never has its data exchanged while it runs."""

    async def story(scene: Scene) -> None:
        new = scene.newcomer(restores=False)
        scene.start(new)
        await scene.until(lambda: new.running == ALL)
        set_aside = new.storage.set_aside
        ran: list[str] = []

        def noted(name: str, *given: Any) -> Any:
            ran.extend(one for one in new.running if one == name)
            return set_aside(name, *given)

        new.storage.set_aside = noted  # type: ignore[method-assign, assignment]
        scene.returns(new, aside=True)
        await scene.until(lambda: [new.page(name) for name in DATA] == [b"first"] * 3)
        await scene.until(lambda: new.running == ALL)
        assert ran == []

    play(story)


def test_a_machine_that_dies_while_it_restores_is_replaced_in_turn() -> None:
    async def story(scene: Scene) -> None:
        new = scene.newcomer()
        scene.start(new)
        await scene.until(lambda: len(scene.bare()) == 3)
        scene.returns(new)
        await scene.until(lambda: "vault" in new.running)
        await scene.kill(new)
        await asyncio.sleep(60)
        third = scene.newcomer("third", "new")
        scene.start(third)
        await scene.until(lambda: third.running == ["plain"] and len(scene.bare()) == 3)
        scene.returns(third)
        await scene.until(lambda: third.running == ALL)
        assert [third.page(name) for name in DATA] == [b"first"] * 3
        for host in (scene.old, new):
            scene.start(host)
            await scene.until(lambda: any(name == "replaced" for name, _ in host.said))  # noqa: B023
        await asyncio.sleep(60)
        assert not (set(scene.old.running) | set(new.running)) & set(DATA)

    play(story)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_machine_killed_at_any_write_and_a_hub_with_it_ends_with_every_service(
    when: Literal["before", "after"],
) -> None:
    async def main(loop: VirtualLoop) -> int:
        scene = Scene(loop)
        await scene.begun()
        await scene.kill(scene.old)
        await asyncio.sleep(60)
        host, over = scene.old, "w1"
        for number in count(1, 3):
            key = f"machine {number}"
            new = scene.newcomer(key, over)
            dying = Dying(number, when, lambda first: True)
            scene.start(new)
            dying.watch(new.journal, *JOURNAL)
            is_asked = False
            end_s = loop.time() + 200
            while not dying.at and loop.time() < end_s and new.running != ALL:
                if not is_asked and len(scene.bare()) == 3 and scene.proven()["w1"].key == new.key.line:
                    scene.returns(new)
                    is_asked = True
                await asyncio.sleep(0.05)
            if dying.at:
                await scene.kill(new)
                dying.revive()
                scene.restart_hub()
                new.rig = new.link.rig = scene.rig
                scene.start(new)
            if not is_asked:
                await scene.until(lambda: len(scene.bare()) == 3)
                scene.returns(new)
            await scene.until(lambda: new.running == ALL)  # noqa: B023
            assert [new.page(name) for name in DATA] == [b"first"] * 3
            await scene.kill(new)
            await asyncio.sleep(60)
            host, over = new, key
            if not dying.at:
                break
        assert host
        return number

    assert virtual.run(main) > 8
