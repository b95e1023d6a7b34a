"""Containers that the revision does not name: reported, stopped or removed as the node's `orphans` says (C-05).

Data is never touched.
"""

from holdfast.agent.findings import Findings
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.door import Ground, Vouch
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.errors import NotPermitted
from holdfast.gate.acts import Act
from holdfast.gate.authority import by_revision
from holdfast.model.audit import Event
from holdfast.model.container import Container
from holdfast.model.proven_address import ends_orphans
from holdfast.ports.audit_log import AuditLog
from holdfast.reconcile import orphans
from holdfast.reconcile.orphans import Facts, Fate

PARKED = "orphan_parked"


class Orphans:
    """`vouch` answers what signatures approved for this node."""

    def __init__(
        self,
        *,
        inventory: ContainerInventory,
        containers: Containers,
        vouch: Vouch,
        audit: AuditLog,
        findings: Findings,
        fleet: str,
        node: str,
    ) -> None:
        self._inventory = inventory
        self._containers = containers
        self._vouch = vouch
        self._audit = audit
        self._findings = findings
        self._fleet = fleet
        self._node = node
        self._parked: set[str] = set()  # targets of the findings

    async def judge(self, wanted: Desired) -> None:
        before, self._parked = self._parked, set()
        await self._judge_all(wanted)
        for target in before - self._parked:
            self._findings.clear(PARKED, target)

    async def _judge_all(self, wanted: Desired) -> None:
        for one in self._inventory.all():
            if self._inventory.is_ours(one):
                continue  # wanted, or not wanted any more: then a rollout takes its service away
            facts = self._facts(one, wanted)
            fate = orphans.fate(facts)
            if fate in ("stop", "remove") and wanted.node.reconcile == "converge":
                await self._end(one, fate, facts.mark == "none")

    def _facts(self, one: Container, wanted: Desired) -> Facts:
        return Facts(
            mark=orphans.mark_of(one, self._fleet),
            switch=wanted.node.orphans,
            foreign=wanted.node.orphans_foreign,
            complete=wanted.complete,
        )

    async def _end(self, one: Container, fate: Fate, foreign: bool) -> None:
        """By the signatures of grade destroy that approved `orphans` of this node."""
        approval = by_revision(self._vouch(f"node.{self._node}"), ends_orphans(fate, foreign))
        ground = Ground(Act.RETIRE, approval)
        try:
            if one.running:
                await self._containers.stop(one, ground)
                self._audit.append(Event("agent", "stop orphan", one.name[:90], detail=one.image[:200]))
            if fate == "remove":
                await self._containers.remove(one, ground)
                self._audit.append(Event("agent", "remove orphan", one.name[:90], detail=one.image[:200]))
        except NotPermitted as parked:
            self._parked.add(f"container.{one.name}")
            self._findings.add(PARKED, parked.message, parked.remedy, f"container.{one.name}")
