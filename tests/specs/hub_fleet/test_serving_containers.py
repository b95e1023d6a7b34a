"""A container of a deployment that waits or failed says nothing about the one that serves."""

from msgspec.structs import replace

from holdfast.hub.alerts import episodes
from holdfast.model.deployment import Phase, ServiceState
from holdfast.model.report import ContainerState, Report
from holdfast.status.services import serving


def report(*containers: ContainerState) -> Report:
    return Report("f" * 64, "w1", "0", containers=containers)


def container(component: str, status: str, deployment: str, orphan: bool = False) -> ContainerState:
    return ContainerState("web", component, status, id=component, deployment=deployment, orphan=orphan)  # type: ignore[arg-type]


def state(phase: Phase, applied: str, serves: str) -> ServiceState:
    return ServiceState("web", phase, applied, serving=serves)


SERVES = container("main", "running", "old")
WAITS = container("new", "stopped", "new")  # created, and not started: a checkpoint has to be made first


def test_a_service_that_serves_is_not_unhealthy_because_its_next_deployment_waits() -> None:
    sign = episodes.sign_of(state("failed", "new", "old"), report(SERVES, WAITS))
    assert sign is not None and sign.bad == "" and sign.started == {"main": 0.0}


def test_what_serves_counts_also_while_another_deployment_failed() -> None:
    ill = container("main", "unhealthy", "older")  # a part that the serving deployment took over as it was
    sign = episodes.sign_of(state("failed", "new", "old"), report(ill, WAITS))
    assert sign is not None and sign.bad == "main is unhealthy"


def test_every_container_counts_once_the_deployment_serves_or_nothing_does() -> None:
    assert serving.containers(state("converged", "new", "new"), report(WAITS)) == [WAITS]
    assert serving.containers(state("failed", "new", ""), report(WAITS)) == [WAITS]
    assert (
        serving.containers(state("failed", "new", "old"), report(WAITS, container("main", "stopped", "old", True)))
        == []
    )


def test_an_unhealthy_service_has_not_recovered_because_its_runtime_does_not_answer_t9() -> None:
    unknown = container("main", "unknown", "new")
    assert episodes.sign_of(state("settling", "new", "new"), report(unknown)) is None
    told = episodes.Episode(bad_s=0.0, told=True)
    assert episodes.due(episodes.after(told, None, 10.0), 1000.0, 30.0)[1] is None


def test_a_container_that_starts_is_no_bad_sign() -> None:
    starting = replace(container("main", "unknown", "new"), state="starting")
    sign = episodes.sign_of(state("settling", "new", "new"), report(starting))
    assert sign is not None and sign.bad == ""
