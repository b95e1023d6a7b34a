"""Which deployment of each service is wanted, durable before anything is begun with it."""

from collections.abc import Collection

from msgspec.structs import replace

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.records import Record, Records
from holdfast.agent.services.rollout.attempts import Attempts
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.outcomes import Outcomes
from holdfast.errors import Failed, HoldfastError
from holdfast.model.container import Guest


class Deployments:
    def __init__(
        self,
        *,
        records: Records,
        attempts: Attempts,
        outcomes: Outcomes,
        pacing: Pacing,
        lanes: Lanes,
        crashes: CrashLoops,
        inventory: ContainerInventory,
    ) -> None:
        self._records = records
        self._attempts = attempts
        self._outcomes = outcomes
        self._pacing = pacing
        self._lanes = lanes
        self._crashes = crashes
        self._inventory = inventory

    def note(self, wanted: Desired) -> None:
        """A new deployment begins without the failure, the hold and the hooks of the one before. A disk that is full
        now must not make it inherit them: then nothing is begun with it."""
        for name in sorted(self.unnoted(wanted)):
            fresh = replace(
                self._records.of(name),
                applied=wanted.guests[name].deployment,
                applied_revision=wanted.revision,
                failure=None,
                held=False,
                hooks=(),
            )
            try:
                self._records.keep(name, fresh)
            except HoldfastError as trouble:
                self._pacing.stuck[name] = trouble
                continue
            self._outcomes.served(name)
            self._attempts.forget(name)
            self._pacing.arrived(name)

    def served(self, wanted: Desired) -> tuple[dict[str, Guest], dict[str, Guest]]:
        """What serves here, each with the schedules that its own deployment declares; and what was only begun."""
        served: dict[str, Guest] = {}
        begun: dict[str, Guest] = {}
        for name in self._records.services():
            serving, guest = self._records.of(name).serving, wanted.guests.get(name)
            if serving is not None:
                served[name] = guest if guest is not None and guest.deployment == serving.deployment else serving
            elif guest is not None:
                begun[name] = guest
        return served, begun

    def serving(self) -> list[tuple[Guest, int]]:
        """What serves here as it was rolled out, each with its revision."""
        known = (self._records.of(name) for name in self._records.services())
        return [(one.serving, one.serving_revision) for one in known if one.serving is not None]

    def unnoted(self, wanted: Desired) -> set[str]:
        """Services whose wanted deployment could not be written down."""
        return {name for name, guest in wanted.guests.items() if self._records.of(name).applied != guest.deployment}

    def forget_left(self, wanted: Desired) -> None:
        """A service left with an earlier revision: how it was rolled out is not shown any more."""
        for name in self._attempts.newest.keys() - wanted.guests.keys():
            if not self._lanes.is_busy(name):
                self._attempts.forget(name)

    def forget_gone(self, leaving: Collection[str]) -> None:
        """A service that never ran has nothing here, so no rollout takes it away."""
        for name in sorted(leaving):
            if not self._lanes.is_busy(name):
                self._records.forget(name)
                self._outcomes.served(name)

    # ---- for orders

    def known(self, wanted: Desired | None, service: str) -> Record:
        if wanted is None or service not in wanted.guests:
            raise Failed(
                f"service.{service} is not applied on this node",
                remedy="`holdfast ps` shows where it is",
                code="not_found",
            )
        self.note(wanted)
        if service in self.unnoted(wanted):
            raise self._pacing.stuck[service]
        return self._records.of(service)

    def retry(self, service: str, record: Record) -> None:
        """What it lacked is there now: a failed deployment is begun again."""
        self.forgive(service, replace(record, failure=None))

    def forgive(self, service: str, record: Record) -> None:
        """An order names the service: it is tried at once, whatever failed before."""
        self._records.keep(service, record)
        self._pacing.forgive(service)
        self._outcomes.served(service)
        self._crashes.forgive(self._inventory.of(service))
