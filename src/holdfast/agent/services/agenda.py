"""Look at every service of this node and list the work that is due, and which subsystems differ."""

from collections.abc import Sequence

from holdfast.agent.keeper import Say
from holdfast.agent.lanes import Lanes
from holdfast.agent.services import adoption
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.here import HereBuilder
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.progress import target_of
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.reconcile import drift, leaving, stages
from holdfast.reconcile.drift import Subsystem
from holdfast.reconcile.stages import Agenda, Look


class Agendas:
    def __init__(
        self,
        *,
        here: HereBuilder,
        inventory: ContainerInventory,
        records: Records,
        deployments: Deployments,
        pacing: Pacing,
        lanes: Lanes,
        drift: "DriftLog",
    ) -> None:
        self._here = here
        self._inventory = inventory
        self._records = records
        self._deployments = deployments
        self._pacing = pacing
        self._lanes = lanes
        self._drift = drift

    def adopt(self, wanted: Desired) -> None:
        adoption.adopt(wanted, self._inventory, self._records)

    async def look(self, wanted: Desired, released: frozenset[str], now_s: float) -> Agenda:
        names = sorted(wanted.guests.keys() | self.leaving(wanted, released))
        busy = {name for name in names if self._lanes.is_busy(name)}
        busy |= self._deployments.unnoted(wanted) | self._pacing.waiting(now_s)
        looks = [await self._look_at(wanted, name) for name in names if name not in busy]
        agenda = stages.work(looks, busy=busy, mode=wanted.node.reconcile)
        self._drift.note(looks if agenda.work or agenda.findings else ())  # hashing costs; at rest nothing differs
        return agenda

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


class DriftLog:
    """Writes a log event when another set of subsystems differs (T-09…T-12)."""

    def __init__(self, routes: InternalRoutes, say: Say) -> None:
        self._routes = routes
        self._say = say
        self._told: tuple[Subsystem, ...] = ()

    def note(self, looks: Sequence[Look]) -> None:
        found = self._differing(looks)
        if found != self._told:
            self._told = found
            self._say("drift", {"subsystems": list(found)})

    def _differing(self, looks: Sequence[Look]) -> tuple[Subsystem, ...]:
        targets = [look.target for look in looks if look.target is not None]
        served = [look for look in looks if not look.here.held]  # a stopped service keeps its names
        told = [route for look in served for route in self._routes.board.of(look.service)]
        expected = [route for look in served for route in self._routes.wanted(look.target, look.here)]
        found = drift.found_rows(seen.container for look in looks for seen in look.here.containers)
        return drift.subsystems(
            {"containers": drift.wanted_rows(targets), "routes": expected},
            {"containers": found, "routes": told},
            self._routes.has_proxy,
        )
