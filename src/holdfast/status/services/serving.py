"""The containers by which a service is judged: those that serve, not those of a deployment that waits. Pure."""

from holdfast.model.deployment import ServiceState
from holdfast.model.report import ContainerState, Report


def containers(state: ServiceState, report: Report) -> list[ContainerState]:
    """A new deployment may have containers that were created and never started, while the old one serves."""
    waiting = state.applied if state.serving and state.serving != state.applied else ""
    return [
        one
        for one in report.containers
        if one.service == state.service and not one.orphan and not (waiting and one.deployment == waiting)
    ]
