"""The section of the report about services and containers, and how it is shortened."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.agent.keeper import Stage
from holdfast.agent.services.container_status import ContainerStatus
from holdfast.agent.services.data.retired import Retired
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.records import Failure, Record, Records
from holdfast.agent.services.rest import Rest
from holdfast.agent.services.rollout.attempts import Attempt, Attempts
from holdfast.errors import HoldfastError
from holdfast.model.container import Guest
from holdfast.model.deployment import Phase, ServiceState
from holdfast.model.report import (
    CheckpointState,
    ContainerState,
    Departure,
    RetiredData,
    Unattached,
    UnlistedCheckpoints,
)
from holdfast.reconcile import checkpoints

STEPS_KEPT = 8
WORDS_MAX = 200
NAME_MAX = 100
OURS_MAX = 400
FEW = 50
FEW_BYTES = 8 * 1024  # for checkpoints


def state(
    guest: Guest,
    record: Record,
    attempt: Attempt | None,
    at_rest: bool,
    stuck: HoldfastError | None,
    standby: bool,
    revision: int,
) -> ServiceState:
    """`stuck`: why the agent cannot go on now; it tries again, as a full disk may be emptied."""
    serving = record.serving
    failure = record.failure if record.failed == guest.deployment else None
    if failure is None and stuck is not None and not at_rest:
        step = attempt.step if attempt is not None else ""
        failure = Failure(guest.deployment, step, stuck.code, stuck.message, stuck.remedy, 0.0)
        at_rest, record = True, replace(record, failure=failure)
    return ServiceState(
        guest.service,
        phase(guest, record, at_rest),
        guest.deployment,
        record.applied_revision or revision,
        serving.deployment if serving is not None else "",
        record.serving_revision,
        tuple(sorted({part.spec.image for part in serving.parts})) if serving is not None else (),
        failure.step if failure is not None else attempt.step if attempt is not None else "",
        failure.code if failure is not None else "",
        failure.message if failure is not None else "",
        failure.remedy if failure is not None else "",
        attempt.told() if attempt is not None else (),
        standby,
    )


def phase(guest: Guest, record: Record, at_rest: bool) -> Phase:
    if record.failed == guest.deployment:
        return "failed" if at_rest else "settling"
    if not at_rest:
        return "settling"
    if record.held or not guest.active:
        return "held"
    serves = record.serving is not None and record.serving.deployment == guest.deployment
    return "converged" if serves else "settling"


def states(
    guests: Mapping[str, Guest],
    record: Callable[[str], Record],
    attempts: Mapping[str, Attempt],
    at_rest: Callable[[str], bool],
    stuck: Mapping[str, HoldfastError],
    standby: frozenset[str],
    revision: int,
) -> tuple[ServiceState, ...]:
    return tuple(
        state(guest, record(name), attempts.get(name), at_rest(name), stuck.get(name), name in standby, revision)
        for name, guest in sorted(guests.items())
    )


def left(guests: Mapping[str, Guest], attempts: Mapping[str, Attempt]) -> tuple[Departure, ...]:
    """Steps of services that are not wanted here any more."""
    return tuple(Departure(name, one.told()) for name, one in sorted(attempts.items()) if name not in guests)


class ServicesReport(Struct, frozen=True, omit_defaults=True):
    containers: tuple[ContainerState, ...] = ()
    services: tuple[ServiceState, ...] = ()
    left: tuple[Departure, ...] = ()
    retired: tuple[RetiredData, ...] = ()
    runtime: str = ""  # product and version, "" while it does not answer
    unattached: tuple[Unattached, ...] = ()
    checkpoints: tuple[CheckpointState, ...] = ()
    unlisted_checkpoints: tuple[UnlistedCheckpoints, ...] = ()

    def shorter(self, stage: Stage) -> "ServicesReport":
        match stage:
            case "few_steps":
                services = tuple(replace(one, steps=one.steps[-STEPS_KEPT:]) for one in self.services)
                return replace(self, services=services, left=())
            case "no_steps":
                return replace(self, services=tuple(_in_few_words(one) for one in self.services))
            case "short_names":  # of containers that are not ours; our names are as long as declared
                return replace(self, containers=tuple(_short(one) if one.orphan else one for one in self.containers))
            case "ours_only":
                ours = tuple(one for one in self.containers if not one.orphan)
                few = {name: getattr(self, name)[:FEW] for name in ("retired", "unattached")}
                copies = checkpoints.listed(self.checkpoints, self.unlisted_checkpoints, FEW_BYTES)
                return replace(self, containers=ours, **few, **asdict(copies))
            case "few":
                return replace(self, containers=self.containers[:OURS_MAX])
            case "nothing":  # no claim about what runs is better than no report
                return ServicesReport(left=self.left)
        return self


def _in_few_words(one: ServiceState) -> ServiceState:
    return replace(one, steps=(), step=one.step[:WORDS_MAX], message=one.message[:WORDS_MAX])


def _short(one: ContainerState) -> ContainerState:
    words = {name: getattr(one, name)[:NAME_MAX] for name in ("service", "component", "image", "deployment")}
    return replace(one, **words, ports=one.ports[:2])


class Status:
    """Builds the section again only when something in it changed."""

    def __init__(
        self,
        *,
        containers: ContainerStatus,
        records: Records,
        attempts: Attempts,
        rest: Rest,
        retired: Retired,
        wanted: Callable[[], Desired | None],
        report: Callable[[], None],
    ) -> None:
        self._containers = containers
        self._records = records
        self._attempts = attempts
        self._rest = rest
        self._retired = retired
        self._wanted = wanted
        self._report = report
        self._changes = 0
        self._rest_told: frozenset[str] = frozenset()  # at rest when they were last shown
        self._built_from: object = None
        self._section = ServicesReport()

    def changed(self) -> None:
        self._changes += 1
        self._report()

    def tell_rest(self) -> None:
        """That a service came to rest changes nothing but its phase in the report."""
        if self._resting() != self._rest_told:
            self._report()

    def section(self) -> ServicesReport:
        built_from = (self._changes, self._resting())
        if built_from != self._built_from:
            self._built_from = built_from
            self._section = ServicesReport(
                self._containers.all(),
                self.states(),
                self.left(),
                self._retired.found,
                self._containers.runtime,
                self._retired.unattached,
                self._retired.checkpoints.checkpoints,
                self._retired.checkpoints.unlisted_checkpoints,
            )
        return self._section

    def states(self) -> tuple[ServiceState, ...]:
        wanted = self._wanted()
        if wanted is None:
            return ()
        self._rest_told = self._resting()
        return states(
            wanted.guests,
            self._records.of,
            self._attempts.newest,
            self._rest.is_at_rest,
            self._rest.stuck,
            wanted.standby,
            wanted.revision,
        )

    def left(self) -> tuple[Departure, ...]:
        wanted = self._wanted()
        return left(wanted.guests, self._attempts.newest) if wanted is not None else ()

    def _resting(self) -> frozenset[str]:
        wanted = self._wanted()
        guests = wanted.guests if wanted is not None else {}
        return frozenset(name for name in guests if self._rest.is_at_rest(name))
