"""Complete health checks: path and port are declared or derived from the routes. Pure."""

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.declared.flaw import Flaws
from holdfast.declared.words import Path
from holdfast.model.fleet import Component, Health, Service

MEANINGS: Mapping[str, str] = {
    "type": "the kind of probe",
    "path": "for `http`; `/` if left out",
    "port": "the port to probe; that of the only route if left out",
    "cmd": "for `exec`: a command that succeeds when healthy",
    "interval": "the pause between two checks",
    "timeout": "how long one check may take",
    "start_period": "if it is not healthy this long after its start, the rollout has failed",
}


def complete(file: str, service: Service, flaws: Flaws) -> Service:
    """Fill in an omitted path and port; note what cannot be derived, and what has no effect."""
    for at, component in enumerate(service.components):
        if component.settle is not UNSET and (component.health is not UNSET or component.routes):
            what = "has no effect: this component counts as healthy when its check answers, and a route is checked too"
            flaws.add_checked(file, ("components", at, "settle"), what, "remove settle")
    if all(component.health is UNSET for component in service.components):
        return service
    components = tuple(
        _component(file, ("components", at, "health"), component, flaws)
        for at, component in enumerate(service.components)
    )
    return replace(service, components=components)


def _component(file: str, where: Path, component: Component, flaws: Flaws) -> Component:
    if component.health is UNSET:
        return component
    if component.health.type == "exec":
        if not component.health.cmd:
            flaws.add_checked(file, (*where, "cmd"), 'missing key: type = "exec" runs a command', "add cmd = [...]")
        return component
    return replace(component, health=_probe(file, where, component, component.health, flaws))


def _probe(file: str, where: Path, component: Component, health: Health, flaws: Flaws) -> Health:
    if health.type == "http" and health.path is UNSET:
        health = replace(health, path="/")
    if health.port is UNSET and len(component.routes) == 1:
        return replace(health, port=component.routes[0].port)
    if health.port is UNSET and not flaws.touch(file, (*where[:-1], "routes")):
        what = f'missing key: type = "{health.type}" needs a port, and {_which_routes(component)}'
        flaws.add_checked(file, (*where, "port"), what, "add port = NUMBER")
    return health


def _which_routes(component: Component) -> str:
    return f"there are {len(component.routes)} routes to take it from" if component.routes else "there is no route"
