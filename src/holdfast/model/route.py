"""Routes: hostnames, internal names, listeners, and the routes of an edge. Values and their spelling only."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from holdfast.model.fleet import Component, Route, Service, Settings

DEFAULT_ZONE = "holdfast.internal"

HTTPS, API, STREAMS = 443, 8443, 9443  # the listeners of a node's proxy (M-13)
PLAIN = 80  # of an edge: challenges of a public authority, and the redirect to https
LISTENERS = (HTTPS, API, STREAMS)
KNOWN_PATH = "/.well-known/holdfast-route"  # see known_path

Mode = Literal["l4", "l7"]
Protocol = Literal["http1", "h2c"]  # the protocol of a container behind an L7 route


def zone_of(settings: Settings) -> str:
    return DEFAULT_ZONE if settings.internal_zone is UNSET else settings.internal_zone


def within(name: str, tree: str) -> bool:
    """Label by label (M-24): xexample.com is not within example.com."""
    return name == tree or name.endswith("." + tree)


def internal_names(service: str, component: str, zone: str) -> tuple[str, ...]:
    """The first is the one that edges use. A component named like its service also has the short name."""
    long = f"{component}.{service}.{zone}"
    return (long, f"{service}.{zone}") if component == service else (long,)


def listener_of(route: Route) -> int:
    """The proxy terminates L7 on 443. Traffic passed through by SNI uses its own port if that is one of the proxy's
    listeners, else 8443."""
    if route.mode == "l7":
        return HTTPS
    return route.port if route.port in LISTENERS else API


def named(
    service: str, component: str, routes: Sequence[Route], zone: str
) -> tuple[tuple[Route, tuple[str, ...]], ...]:
    """Every route of a component with its internal names; the first name is the one that edges use.

    The component's own names belong to its first L7 route, and to every L4 route, which has its own listener; a
    further L7 route has its own name below them. A hostname that is not public is one more internal name.
    """
    own, found = internal_names(service, component, zone), []
    is_taken = False
    for route in routes:
        names = own
        if route.mode == "l7":
            names = (f"{route.name}.{own[0]}",) if is_taken else own
            is_taken = True
        if route.hostname is not UNSET and not route.public and route.hostname not in names:
            names = (*names, route.hostname)
        found.append((route, names))
    return tuple(found)


def known_path(service: str, component: str, route: str) -> str:
    """A worker's proxy answers 204 on this path, for a public name that it routes to exactly this route."""
    return f"{KNOWN_PATH}/{service}/{component}/{route}"


def hostname_of(service: str, route: Route, domains: Sequence[str]) -> str:
    """The public name of a public route: as declared, else the service's name in the first public domain (M-134)."""
    if route.hostname is not UNSET:
        return route.hostname
    return f"{service}.{domains[0]}" if domains else ""


def public_routes(service: Service) -> Iterator[tuple[Component, Route]]:
    return ((component, route) for component in service.components for route in component.routes if route.public)


class PublicRoute(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One public hostname of a service, as the resource table records it; the plan chooses its edge."""

    component: str
    route: str
    edge: str  # node; "" while no node is an edge
    backend: str  # the internal name that the worker's proxy serves
    listener: int = HTTPS  # of the worker's proxy
    mode: Mode = "l7"
    pass_headers: tuple[str, ...] = ()


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """A node that runs a service, or may run it: its name, and its address in the overlay."""

    node: str
    address: str


class EdgeRoute(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One public hostname as an edge must serve it: over TLS to the proxy of the node that runs the service."""

    service: str
    component: str
    route: str
    node: str  # that runs it
    address: str  # of that node, in the overlay
    backend: str  # internal name: SNI, and the name its certificate must have
    epoch: int
    port: int = HTTPS
    mode: Mode = "l7"
    others: tuple[Place, ...] = ()  # nodes that may run it while its own node is silent (failover), first choice first
    pass_headers: tuple[str, ...] = ()
    fenced: str = ""  # address of the node that had its data before a backup of it began here: nothing leads there
