"""The containers by which a service is judged: those that serve, not those of a deployment that waits. Pure."""

from holdfast.model.deployment import ServiceState
from holdfast.model.report import ContainerState, Report
from holdfast.model.size import counted


def ill(state: ServiceState, report: Report) -> list[ContainerState]:
    """Those that run and do not do their work. One that is stopped may be back at any moment."""
    return [one for one in containers(state, report) if one.status == "unhealthy"]


def idle(state: ServiceState, report: Report) -> list[ContainerState]:
    """Those that do not do their work, also if they are stopped: of a rollout that failed none comes back soon."""
    return [one for one in containers(state, report) if one.status in ("unhealthy", "stopped")]


def shown(one: ContainerState) -> str:
    """For people: "web is restarting (7 restarts, last exit 137 oom)"."""
    restarts = counted(one.restarts, "restart") if one.restarts else ""
    known = (restarts, f"last exit {one.last_exit}" if one.last_exit else "")
    past = ", ".join(filter(None, known))
    return f"{one.component} is {one.state or one.status}{f' ({past})' if past else ''}"


def containers(state: ServiceState, report: Report) -> list[ContainerState]:
    """A new deployment may have containers that were created and never started, while the old one serves."""
    waiting = state.applied if state.serving and state.serving != state.applied else ""
    return [
        one
        for one in report.containers
        if one.service == state.service and not one.orphan and not (waiting and one.deployment == waiting)
    ]
