"""Containers that the revision does not name: reported, stopped or removed as the node's `orphans` says (C-05).

Data is never touched.
"""

from holdfast.agent.findings import Findings
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.inventory import MADE, ContainerInventory
from holdfast.gate import facts as gate_facts
from holdfast.gate.acts import Act, Data
from holdfast.gate.authority import by_revision
from holdfast.gate.decide import Deed, Park, decide
from holdfast.model.audit import Event
from holdfast.model.container import Container
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime
from holdfast.reconcile import orphans
from holdfast.reconcile.orphans import Facts, Fate


class Orphans:
    def __init__(
        self,
        *,
        runtime: Runtime,
        inventory: ContainerInventory,
        containers: Containers,
        journal: Journal,
        audit: AuditLog,
        findings: Findings,
        fleet: str,
        node: str,
    ) -> None:
        self._runtime = runtime
        self._inventory = inventory
        self._containers = containers
        self._journal = journal
        self._audit = audit
        self._findings = findings
        self._fleet = fleet
        self._node = node

    async def judge(self, wanted: Desired) -> None:
        for one in self._inventory.all():
            if self._inventory.is_ours(one):
                continue  # wanted, or not wanted any more: then a rollout takes its service away
            fate = orphans.fate(self._facts(one, wanted))
            if fate in ("stop", "remove") and wanted.node.reconcile == "converge":
                await self._end(one, fate)

    def _facts(self, one: Container, wanted: Desired) -> Facts:
        return Facts(
            mark=orphans.mark_of(one, self._fleet),
            switch=wanted.node.orphans,
            foreign=wanted.node.orphans_foreign,
            complete=wanted.complete,
        )

    async def _end(self, one: Container, fate: Fate) -> None:
        """`orphans = "stop"` or "remove" is in force only because an operator of grade destroy signed for it."""
        if fate == "remove" and not self._may_remove(one):
            return
        if one.running:
            await self._containers.stop(one)
            self._audit.append(Event("agent", "stop orphan", one.name[:90], detail=one.image[:200]))
        if fate == "remove":
            await self._runtime.remove(one.id)
            self._audit.append(Event("agent", "remove orphan", one.name[:90], detail=one.image[:200]))
        await self._inventory.refresh(one.id)

    def _may_remove(self, one: Container) -> bool:
        facts = gate_facts.Facts(gate_facts.provenance(self._journal, MADE + one.name, None), Data.NOTHING)
        authority = by_revision(0, "destroy")
        decision = decide(Deed(Act.RETIRE, f"container.{one.name}", self._node, facts, authority))
        if isinstance(decision, Park):
            self._findings.add("orphan_parked", decision.reason, decision.sign, f"container.{one.name}")
        return not isinstance(decision, Park)
