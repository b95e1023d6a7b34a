"""Look at every service of this node and list the work that is due, and which subsystems differ."""

from holdfast.agent.keeper import Say
from holdfast.agent.lanes import Lanes
from holdfast.agent.services import adoption
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.data_here import HereWithData
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.progress import target_of
from holdfast.reconcile import drift, leaving, stages
from holdfast.reconcile.stages import Agenda, Look


class Agendas:
    def __init__(
        self,
        *,
        here: HereWithData,
        inventory: ContainerInventory,
        records: Records,
        deployments: Deployments,
        pacing: Pacing,
        lanes: Lanes,
        say: Say,
    ) -> None:
        self._here = here
        self._inventory = inventory
        self._records = records
        self._deployments = deployments
        self._pacing = pacing
        self._lanes = lanes
        self._say = say
        self._told: list[str] = []

    def adopt(self, wanted: Desired) -> None:
        adoption.adopt(wanted, self._inventory, self._records)

    async def look(self, wanted: Desired, released: frozenset[str], now_s: float) -> Agenda:
        names = sorted(wanted.guests.keys() | self.leaving(wanted, released))
        busy = {name for name in names if self._lanes.is_busy(name)}
        busy |= self._deployments.unnoted(wanted) | self._pacing.waiting(now_s)
        if self._pacing.withholds_data:
            busy |= leaving.with_data(wanted.guests)
        looks = [await self._look_at(wanted, name) for name in names if name not in busy]
        agenda = stages.work(looks, busy=busy, mode=wanted.node.reconcile)
        self._log_drift(drift.subsystems(agenda.findings))
        return agenda

    def _log_drift(self, subsystems: list[str]) -> None:
        if subsystems != self._told:
            self._told = subsystems
            self._say("drift", {"subsystems": subsystems})

    def unnoted(self, wanted: Desired) -> set[str]:
        return self._deployments.unnoted(wanted)

    def forget_gone(self, wanted: Desired, released: frozenset[str], agenda: Agenda) -> None:
        here = {work.service for work in agenda.work} | {one.service for one in self._inventory.ours()}
        self._deployments.forget_gone(self.leaving(wanted, released) - here)

    def leaving(self, wanted: Desired, released: frozenset[str]) -> set[str]:
        """Made here and not in the manifest any more: taken away, the data stays. Not while a content is unread
        (C-05)."""
        if not wanted.complete:
            return set()
        known = {one.service for one in self._inventory.ours()} | set(self._records.services())
        return {name for name in known - wanted.guests.keys() if not self._serves_on(name, wanted, released)}

    def _serves_on(self, name: str, wanted: Desired, released: frozenset[str]) -> bool:
        """It moved to another node and serves here until it is proven there."""
        record = self._records.of(name)
        return not record.held and leaving.serves_on(wanted.manifest, f"service.{name}", record.serving, released)

    async def _look_at(self, wanted: Desired, name: str) -> Look:
        guest = wanted.guests.get(name)
        here = await self._here.of(name, guest)
        return Look(name, target_of(guest, self._records.of(name)), here)
