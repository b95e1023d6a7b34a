"""The part of the report about containers."""

from collections.abc import Callable, Iterable

from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.model.container import LABEL_DEPLOYMENT, LABEL_EPOCH, Container
from holdfast.model.report import ContainerState
from holdfast.reconcile import orphans
from holdfast.reconcile.here import Word

STATUS = {"starting": "unknown", "healthy": "running", "unhealthy": "unhealthy", "failed": "unhealthy"}


def container(one: Container, word: Word, orphan: bool, restarts: int, restarting: bool) -> ContainerState:
    """A container without a running process is stopped, whatever the runtime calls it."""
    status = STATUS[word] if one.running and not orphan else "running" if one.running else "stopped"
    state = "starting" if one.running and not orphan and word == "starting" else ""
    if restarting:
        status, state = "unhealthy", "restarting"
    epoch = one.labels.get(LABEL_EPOCH, "0")
    return ContainerState(
        one.service or one.name,
        one.component,
        status,  # type: ignore[arg-type]
        one.image,
        int(epoch) if epoch.isdigit() else 0,
        one.id[:12],
        one.replica,
        one.labels.get(LABEL_DEPLOYMENT, ""),
        one.pid if one.running else 0,
        float(int(one.started_s)),
        tuple(f"{port.address}:{port.outside}→{port.inside}" for port in one.ports),
        orphan,
        state,
        restarts,
        one.last_end,
    )


def containers(
    ours: Iterable[Container], others: Iterable[Container], word: Callable[[Container], Word], crashes: CrashLoops
) -> tuple[ContainerState, ...]:
    mine = [container(one, word(one), False, crashes.restarts(one), crashes.is_restarting(one)) for one in ours]
    foreign = [container(one, "starting", True, one.restarts, False) for one in others]
    return tuple(sorted([*mine, *foreign], key=lambda one: (one.service, one.component, one.replica, one.id)))


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
        shown = [one for one in self._inventory.all() if orphans.mark_of(one, self._fleet) != "infrastructure"]
        ours = [one for one in shown if self._inventory.is_ours(one)]
        others = [one for one in shown if not self._inventory.is_ours(one)]
        return containers(ours, others, self._word, self._crashes)

    def _word(self, container: Container) -> Word:
        """While the runtime does not answer, the health of a container that was seen before is not known."""
        return self._health_checks.word(container) if self._inventory.runtime else "starting"
