"""Containers nobody wants here: reported, stopped or removed as the node's `orphans` says (C-05). Never data."""

from holdfast.agent.findings import Findings
from holdfast.agent.membership import Membership
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.rollout.crew import Crew
from holdfast.agent.services.rollout.inventory import MADE
from holdfast.agent.world import World
from holdfast.gate import facts as gate_facts
from holdfast.gate.acts import Act, Data
from holdfast.gate.authority import by_revision
from holdfast.gate.decide import Deed, Park, decide
from holdfast.model.audit import Event
from holdfast.model.container import Container
from holdfast.reconcile import orphans
from holdfast.reconcile.orphans import Facts, Fate


class Orphans:
    def __init__(self, world: World, crew: Crew, membership: Membership, findings: Findings) -> None:
        self._world = world
        self._crew = crew
        self._me = membership
        self._findings = findings

    def is_shown(self, container: Container) -> bool:
        """Infrastructure is nobody's orphan (I-35)."""
        return orphans.mark_of(container, self._me.fleet) != "infrastructure"

    async def judge(self, wanted: Desired) -> None:
        for one in self._crew.inventory.all():
            if one.service in wanted.guests and self._crew.inventory.is_ours(one):
                continue
            if self._crew.inventory.is_ours(one):
                continue  # made here and not wanted any more: its service is retired by a rollout
            fate = orphans.fate(self._facts(one, wanted))
            if fate in ("stop", "remove") and wanted.node.reconcile == "converge":
                await self._end(one, fate)

    def _facts(self, one: Container, wanted: Desired) -> Facts:
        return Facts(
            mark=orphans.mark_of(one, self._me.fleet),
            known=self._crew.inventory.is_ours(one),
            exact=False,  # whoever is exactly what is wanted was adopted before
            applied=one.service in wanted.guests,
            tombstoned=False,
            switch=wanted.node.orphans,
            foreign=wanted.node.orphans_foreign,
            complete=wanted.complete,
        )

    async def _end(self, one: Container, fate: Fate) -> None:
        """`orphans = "stop"` or "remove" is in force only because an operator of grade destroy signed for it."""
        if fate == "remove" and not self._may_remove(one):
            return
        if one.running:
            await self._crew.stop(one)
            self._world.audit.append(Event("agent", "stop orphan", one.name[:90], detail=one.image[:200]))
        if fate == "remove":
            await self._world.runtime.remove(one.id)
            self._world.audit.append(Event("agent", "remove orphan", one.name[:90], detail=one.image[:200]))
        await self._crew.inventory.refresh(one.id)

    def _may_remove(self, one: Container) -> bool:
        facts = gate_facts.Facts(gate_facts.provenance(self._world.journal, MADE + one.name, None), Data.NOTHING)
        word = by_revision(0, "destroy")
        decision = decide(Deed(Act.RETIRE, f"container.{one.name}", self._me.node, facts, word))
        if isinstance(decision, Park):
            self._findings.add("orphan_parked", decision.reason, decision.sign, f"container.{one.name}")
        return not isinstance(decision, Park)
