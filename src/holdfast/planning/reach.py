"""The internal names and public hostnames of a service, and the checks of its routes. Pure.

The command line shows the complaints with file and line; the hub refuses a revision for the same ones.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.model.client_headers import is_own
from holdfast.model.fleet import Component, Route, Service, Settings
from holdfast.model.route import (
    API,
    LISTENERS,
    PublicRoute,
    hostname_of,
    listener_of,
    named,
    public_routes,
    zone_of,
)
from holdfast.planning.complaint import Complaint, Path
from holdfast.planning.edges import hostname_complaint, internal_complaint

_CHOOSE_PORTS = (
    f"choose other ports: an l4 route listens on its own port if that is one of "
    f"{', '.join(map(str, LISTENERS))}, else on {API}; or move one route into its own component"
)


class Reach(Struct, frozen=True):
    """Does not choose the edge of a public hostname: `edge` is "" in each."""

    names: tuple[str, ...]
    public: dict[str, PublicRoute]


NOWHERE = Reach((), {})


def reach(name: str, service: Service, settings: Settings) -> Reach:
    """A component with a route has its internal names; a route may declare a further one (M-79, M-134)."""
    zone = zone_of(settings)
    names: set[str] = set()
    public: dict[str, PublicRoute] = {}
    for component in service.components:
        for route, own in named(name, component.name, component.routes, zone):
            names.update(own)
            if route.public:
                hostname = hostname_of(name, route, settings.public_domains)
                public[hostname] = PublicRoute(
                    component.name, route.name, "", own[0], listener_of(route), route.mode, route.pass_headers
                )
    return Reach(tuple(sorted(names)), dict(sorted(public.items())))


def hostnames(declared: tuple[str, ...], public: Mapping[str, PublicRoute]) -> tuple[str, ...]:
    """The names that a service claims: declared ones, and derived public ones."""
    return tuple(sorted({*declared, *public})) if public else declared


def unassigned(public: Mapping[str, PublicRoute]) -> dict[str, PublicRoute]:
    return {hostname: replace(route, edge="") for hostname, route in public.items()}


# ---- complaints -----------------------------------------------------------------------------------------------------


def complaints(name: str, service: Service, settings: Settings) -> Iterator[Complaint]:
    """Everything about the routes of one service that cannot be served."""
    nameless = sum(route.hostname is UNSET for _, route in public_routes(service))
    claimed: dict[str, str] = {}
    for at, component in enumerate(service.components):
        where: Path = ("components", at)
        yield from _listeners(component, where)
        for index, (route, own) in enumerate(named(name, component.name, component.routes, zone_of(settings))):
            yield from _names(component.name, route, own, settings, claimed, (*where, "routes", index))
            yield from _route(name, route, settings, nameless, claimed, (*where, "routes", index))


def _names(
    component: str, route: Route, own: tuple[str, ...], settings: Settings, claimed: dict[str, str], where: Path
) -> Iterator[Complaint]:
    """One internal name may have several listeners of one component, never two components."""
    for name in own:
        declared = name == route.hostname
        at = (*where, "hostname") if declared else where
        if wrong := internal_complaint(name, settings):
            zone = zone_of(settings)
            told = f'write a name within "{zone}", or public = true for one of your public_domains'
            yield Complaint(at, wrong, told if declared else "rename the route, the component or the service")
            return
        if (owner := claimed.setdefault(name, component)) != component:
            what = f'"{name}" already belongs to component "{owner}"'
            yield Complaint(at, what, "give one of them another hostname")


def _listeners(component: Component, where: Path) -> Iterator[Complaint]:
    """l4 traffic is distinguished by its name only, so an l4 route needs its own listener; HTTP routes share 443."""
    first: dict[int, Route] = {}
    for index, route in enumerate(component.routes):
        other = first.setdefault(listener_of(route), route)
        if other is not route and "l4" in (route.mode, other.mode):
            what = f'"{route.name}" and "{other.name}" would both listen on port {listener_of(route)} of a proxy'
            yield Complaint((*where, "routes", index), what, _CHOOSE_PORTS)


def _headers(route: Route, where: Path) -> Iterator[Complaint]:
    at = (*where, "pass_headers")
    if route.pass_headers and route.mode != "l7":
        what = 'pass_headers is for HTTP, but mode = "l4" passes bytes through unread'
        yield Complaint(at, what, 'write mode = "l7", or remove pass_headers')
    elif own := [name for name in route.pass_headers if is_own(name)]:
        yield Complaint(at, f'"{own[0]}" is written or read by the proxies themselves', "remove it from pass_headers")


def _route(
    name: str, route: Route, settings: Settings, nameless: int, claimed: dict[str, str], where: Path
) -> Iterator[Complaint]:
    if route.protocol == "h2c" and route.mode != "l7":
        what = 'protocol = "h2c" is for HTTP, but mode = "l4" passes bytes through unread'
        yield Complaint((*where, "protocol"), what, 'write mode = "l7", or remove protocol')
    yield from _headers(route, where)
    if not route.public:
        return
    at = (*where, "hostname")
    if not settings.public_domains:
        what = "a public route needs a domain, but the fleet has none"
        yield Complaint((*where, "public"), what, "add public_domains to [fleet] in fleet.toml")
        return
    first = settings.public_domains[0]
    if route.hostname is UNSET and nameless > 1:
        what = "missing key: several public routes of this service have no hostname, and only one can have its name"
        yield Complaint(at, what, f'add hostname = "….{first}"')
        return
    hostname = hostname_of(name, route, settings.public_domains)
    if wrong := hostname_complaint(hostname, settings):
        yield Complaint(at, wrong, f'write a name such as "{name}.{first}"')
    elif hostname in claimed:
        yield Complaint(at, f"two routes of this service claim {hostname}", "give one of them another hostname")
    claimed[hostname] = route.name
