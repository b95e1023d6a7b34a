"""What a report says of services and containers, as this agent sees them, in the words of the contract. Pure."""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from holdfast.agent.services.records import Failure, Record
from holdfast.agent.services.rollout.attempts import Attempt
from holdfast.errors import HoldfastError
from holdfast.model.container import LABEL_DEPLOYMENT, LABEL_EPOCH, Container, Guest
from holdfast.model.deployment import Phase, ServiceState
from holdfast.model.report import ContainerState, Departure
from holdfast.reconcile.here import Word

STATUS = {"starting": "unknown", "healthy": "running", "unhealthy": "unhealthy", "failed": "unhealthy"}


def container(one: Container, word: Word, orphan: bool) -> ContainerState:
    """One without a living process is stopped, whatever its product says of it."""
    status = STATUS[word] if one.running and not orphan else "running" if one.running else "stopped"
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
    )


def state(
    guest: Guest,
    record: Record,
    attempt: Attempt | None,
    at_rest: bool,
    stuck: HoldfastError | None,
    standby: bool,
    revision: int,
) -> ServiceState:
    """`stuck`: the agent cannot go on and says so, though it tries again by itself: a full disk may be mended."""
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


def containers(
    ours: Iterable[Container], others: Iterable[Container], word: Callable[[Container], Word]
) -> tuple[ContainerState, ...]:
    mine = [container(one, word(one), False) for one in ours]
    foreign = [container(one, "starting", True) for one in others]
    return tuple(sorted([*mine, *foreign], key=lambda one: (one.service, one.component, one.replica, one.id)))


def running(ours: Iterable[Container]) -> int:
    return sum(one.running for one in ours)


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
    """What was done about services that are not wanted here any more."""
    return tuple(Departure(name, one.told()) for name, one in sorted(attempts.items()) if name not in guests)
