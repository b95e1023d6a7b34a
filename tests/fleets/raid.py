"""A node whose hub is owned by an attacker who also holds a key of grade apply; and the same node behind a weak door.

The attacker's hub judges nothing: it hands out whatever was signed. `weaken` takes away, in memory, every check by
which the node itself refuses: each attack must then succeed, or it would prove nothing.
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.acceptance import approvals, demanded, manifest_grades
from holdfast.agent.orders.order_horizon import OrderHorizon
from holdfast.agent.orders.order_journal import OrderJournal
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.services.data.retired import Retired
from holdfast.agent.services.data.users import DataUsers
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.gate import copies, decide
from holdfast.gate.table import TABLE
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Service, Volume
from holdfast.model.order import NAMESPACE, Delivered, SignedOrder
from holdfast.model.passport import Passport
from holdfast.model.revision import Candidate
from holdfast.planning.plan import plan
from holdfast.trust import orders as order_rules
from tests.fleets.agents import PaperHub, applied_after, until
from tests.fleets.build import ALICE, ALICE_SIGNER, operator_signer, sign, small_fleet
from tests.fleets.deploying import Scene, service

DEV, DEV_SIGNER = operator_signer("dev", "apply")
DATA = Volume("book", "/data", "none")
PAGE = b"the only copy"


def kept(version: int = 1, **changed: Any) -> Service:
    return service(version, **{"volumes": (DATA,), **changed})


def fleet(services: dict[str, Service], **node: Any) -> Fleet:
    found = small_fleet(services, ("w1",), (ALICE, DEV))
    return replace(found, nodes={"w1": replace(found.nodes["w1"], **node)})


class Raid:
    """`web` and `db` have data; alice, of grade root, signed their first revision."""

    def __init__(self, scene: Scene, first: Fleet) -> None:
        self.scene = scene
        self.machine = scene.machine
        self.wanted = first
        self._applied: Applied | None = None
        self.hub = PaperHub(self._next(first, ALICE_SIGNER))
        self.hub.time_s = scene.rig.clock.now_s
        scene.machine.link = self.hub
        self._counter = 0

    def _next(self, wanted: Fleet, signer: Any) -> Candidate:
        planned = plan(wanted, self._applied)
        assert planned.candidate is not None, "the attack changes nothing"
        candidate = sign(planned.candidate, signer)
        self._applied = applied_after(candidate, self._applied)
        return candidate

    async def begun(self) -> None:
        self.scene.start()
        await self.rest(30)
        for name in self.wanted.services:
            self.write(name)

    def write(self, name: str, text: bytes = PAGE) -> None:
        if name in self.machine.storage.contents:
            self.machine.storage.contents[name]["book/page"] = text

    async def rest(self, seconds: float = 120.0) -> None:
        await asyncio.sleep(seconds)

    # ---- what the attacker does

    async def signs(self, signer: Any = None, node: dict[str, Any] | None = None, **services: Service | None) -> None:
        """A revision: None takes a service away."""
        self.hub.candidates.append(self.next(signer, node, **services))
        await self.rest()

    def next(self, signer: Any = None, node: dict[str, Any] | None = None, **services: Service | None) -> Candidate:
        left = {**self.wanted.services, **services}
        after = {name: one for name, one in left.items() if one is not None}
        nodes = {"w1": replace(self.wanted.nodes["w1"], **(node or {}))}
        self.wanted = replace(self.wanted, services=after, nodes=nodes)
        return self._next(self.wanted, signer or DEV_SIGNER)

    async def alice(self, **services: Service | None) -> None:
        await self.signs(ALICE_SIGNER, None, **services)

    def order(self, action: str, target: str, signer: Any = None, node: str = "w1", **given: Any) -> SignedOrder:
        self._counter += 1
        made = self.scene.rig.order(node, self._counter, action, target=target, **given)
        return replace(made, signatures=((signer or DEV_SIGNER).sign(made.order, NAMESPACE),))

    async def sends(self, *orders: SignedOrder) -> None:
        self.hub.orders.extend(Delivered(1, signed=one) for one in orders)
        await self.rest()

    # ---- what it got

    def copied(self, name: str = "web", text: bytes = PAGE) -> bool:
        found = self.machine.storage.copies
        return any(service == name and files.get("book/page") == text for (service, _), (_, files) in found.items())

    def serves(self, name: str = "web") -> bool:
        """The newest deployment of the attacker runs."""
        state, wanted = self.scene.state(name), self._applied
        assert wanted is not None
        return (
            state is not None
            and state.phase == "converged"
            and self.in_force(name) == wanted.table.entries.get(f"service.{name}")
        )

    def in_force(self, name: str) -> Any:
        agent = self.scene.agent
        assert agent is not None and agent.accepting.in_force is not None
        return agent.accepting.in_force.services.get(f"service.{name}")

    def mounts(self, name: str, *sources: str) -> bool:
        """A container of this service mounts all of these."""
        made = [kept.made.spec for kept in self.machine.runtime._kept.values() if kept.made is not None]
        return any(spec.service == name and set(sources) <= {mount.source for mount in spec.mounts} for spec in made)

    def has_data(self, name: str) -> bool:
        return "book/page" in self.machine.storage.contents.get(name, {})

    def runs(self, name: str) -> bool:
        return any(kept.seen.name == name and kept.seen.running for kept in self.machine.runtime._kept.values())


Attack = Callable[[Raid], Any]


async def raided(scene: Scene, first: Fleet, attack: Attack) -> bool:
    """Whether the attacker got what they wanted."""
    await scene.kill()
    raid = Raid(scene, first)
    await raid.begun()
    await until(scene.rig, lambda: scene.agent is not None and scene.agent.accepting.newest is not None)
    return bool(await attack(raid))


def weaken(patch: pytest.MonkeyPatch) -> None:
    """Grades and scopes, the gate's table, passports, orders, names in the journal, paths of the storage."""
    patch.setattr(decide, "TABLE", {case: replace(row, need="none") for case, row in TABLE.items()})
    for module in (demanded, approvals):
        patch.setattr(module, "missing", lambda *ignored: None)
    patch.setattr(manifest_grades, "unsound", lambda *ignored: None)
    patch.setattr(Passport, "admits", lambda *ignored: True)
    patch.setattr(order_rules, "endorsement", SimpleNamespace(signers=lambda *ignored: ()))
    patch.setattr(order_rules, "replay", lambda *ignored: None)
    patch.setattr(order_rules, "_check_addressee", lambda *ignored: None)
    patch.setattr(order_rules, "_check_time", lambda *ignored: None)
    for part in (OrderHorizon, OrderLife):
        patch.setattr(part, "refusal", lambda *ignored: None)
    patch.setattr(OrderJournal, "result_of", lambda *ignored: None)
    begin = MemoryJournal.begin
    patch.setattr(
        MemoryJournal, "begin", lambda self, operation, use=None, makes=(): begin(self, operation, None, makes)
    )
    patch.setattr(ContainerInventory, "made", lambda *ignored: True)
    for storage in (MemoryStorage, DirectoryStorage):
        patch.setattr(storage, "host_path", lambda self, service, path, allowed: path)
    patch.setattr(DirectoryStorage, "content", lambda *ignored: None)
    patch.setattr(DirectoryStorage, "volume", lambda self, service, name, allowed: f"{self.root}/{service}/{name}")

    async def unused(*ignored: Any) -> None:
        return None

    patch.setattr(DataUsers, "refuse", unused)
    patch.setattr(Retired, "is_applied", lambda *ignored: False)
    patch.setattr(copies, "_unnamed", lambda *ignored: None)
