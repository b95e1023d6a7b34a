"""The part of the report about containers."""

from collections.abc import Mapping

from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.model.container import LABEL_DEPLOYMENT, LABEL_EPOCH, Container
from holdfast.model.report import ContainerState
from holdfast.reconcile import orphans
from holdfast.reconcile.here import Word

Shown = tuple[str, str]  # status, state

STATUS: Mapping[Word, Shown] = {
    "starting": ("unknown", "starting"),
    "healthy": ("running", ""),
    "unhealthy": ("unhealthy", ""),
    "failed": ("unhealthy", ""),
}
UNKNOWN: Shown = ("unknown", "")  # the runtime does not answer: what was seen before may not be so any more
RESTARTING: Shown = ("unhealthy", "restarting")


def status(one: Container, word: Word | None, restarting: bool) -> Shown:
    """A container without a running process is stopped, whatever the runtime calls it. `word` is None for one that is
    not ours: its health is not asked for."""
    if restarting:
        return RESTARTING
    if not one.running:
        return "stopped", ""
    return STATUS[word] if word is not None else ("running", "")


def container(one: Container, shown: Shown, orphan: bool, restarts: int) -> ContainerState:
    epoch = one.labels.get(LABEL_EPOCH, "0")
    return ContainerState(
        one.service or one.name,
        one.component,
        shown[0],  # type: ignore[arg-type]
        one.image,
        int(epoch) if epoch.isdigit() else 0,
        one.id[:12],
        one.replica,
        one.labels.get(LABEL_DEPLOYMENT, ""),
        one.pid if one.running else 0,
        float(int(one.started_s)),
        tuple(f"{port.address}:{port.outside}→{port.inside}" for port in one.ports),
        orphan,
        shown[1],
        restarts,
        one.last_end,
    )


class ContainerStatus:
    """Containers of this machine, without infrastructure: that is never an orphan (I-35)."""

    def __init__(
        self, inventory: ContainerInventory, health_checks: HealthChecks, crashes: CrashLoops, fleet: str
    ) -> None:
        self._inventory = inventory
        self._health_checks = health_checks
        self._crashes = crashes
        self._fleet = fleet

    @property
    def runtime(self) -> str:
        return self._inventory.runtime

    def all(self) -> tuple[ContainerState, ...]:
        shown = (one for one in self._inventory.all() if orphans.mark_of(one, self._fleet) != "infrastructure")
        found = (self._ours(one) if self._inventory.is_ours(one) else self._other(one) for one in shown)
        return tuple(sorted(found, key=lambda one: (one.service, one.component, one.replica, one.id)))

    def _ours(self, one: Container) -> ContainerState:
        shown = status(one, self._health_checks.word(one), self._crashes.is_restarting(one))
        return container(one, shown if self.runtime else UNKNOWN, False, self._crashes.restarts(one))

    def _other(self, one: Container) -> ContainerState:
        return container(one, status(one, None, False) if self.runtime else UNKNOWN, True, one.restarts)
