"""The routes of what serves: which healthy containers answer for which route. Pure; an adapter tells the proxy."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.model import canonical
from holdfast.model.container import Guest, Part
from holdfast.model.fleet import Route
from holdfast.ports.proxy import Backend, ProxyRoute
from holdfast.reconcile.here import Here, Seen
from holdfast.reconcile.rollout import backends, keepers_of

ProxyKind = Literal["internal", "public", "none"]


def routes(serving: Guest | None, here: Here, proxy: ProxyKind | UnsetType = UNSET) -> tuple[ProxyRoute, ...]:
    """Of one service, sorted. Empty on a node without a proxy (T-32), at rest, and for a service that left."""
    if serving is None or proxy == "none" or here.held or not serving.active:
        return ()
    keepers = keepers_of(serving, here)
    pairs = ((part, route) for part in serving.parts for route in part.routes)
    return ordered(_route(serving.service, part, route, backends(part, keepers, here)) for part, route in pairs)


def ordered(found: Iterable[ProxyRoute]) -> tuple[ProxyRoute, ...]:
    """Of one or several services, always in the same order."""
    return tuple(sorted(found, key=lambda route: (route.service, route.component, route.route)))


def _route(service: str, part: Part, route: Route, seen: Sequence[Seen]) -> ProxyRoute:
    hostnames = () if route.hostname is UNSET else (route.hostname,)
    published = {
        Backend(port.address, port.outside) for one in seen for port in one.container.ports if port.inside == route.port
    }
    return ProxyRoute(
        service, part.spec.component, route.name, route.mode, hostnames, route.public, tuple(sorted(published))
    )


def digest(found: Iterable[ProxyRoute]) -> str:
    """The same for the same set, whatever order it was handed over in (T-12)."""
    return canonical.digest(canonical.encode(ordered(found)))
