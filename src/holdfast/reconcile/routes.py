"""The proxy routes of a node's services: which healthy containers are the backends. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.container import Guest, Part
from holdfast.model.fleet import Route
from holdfast.model.route import DEFAULT_ZONE, hostname_of, listener_of, named
from holdfast.ports.proxy import Backend, ProxyRoute
from holdfast.reconcile.here import Here, Seen
from holdfast.reconcile.rollout import backends, keepers_of

ProxyKind = Literal["internal", "public", "none"]


class Naming(Struct, frozen=True):
    """The internal zone and the public domains of this fleet."""

    zone: str = DEFAULT_ZONE
    domains: tuple[str, ...] = ()  # public ones


Certificate = Callable[[tuple[str, ...]], str]  # digest of the certificate for these names, "" if there is none


def routes(
    serving: Guest | None,
    here: Here,
    proxy: ProxyKind = "internal",
    naming: Naming = Naming(),  # noqa: B008
) -> tuple[ProxyRoute, ...]:
    """Of one service, sorted, without certificates. Empty on a node without a proxy (T-32), for a stopped service, and
    for a service that left."""
    if serving is None or proxy == "none" or here.held or not serving.active:
        return ()
    keepers = keepers_of(serving, here)
    return ordered(
        _route(serving.service, part, route, names, backends(part, keepers, here), here.tried, naming)
        for part in serving.parts
        for route, names in named(serving.service, part.spec.component, part.routes, naming.zone)
    )


def certified(found: Iterable[ProxyRoute], certificate: Certificate) -> tuple[ProxyRoute, ...]:
    """A route that the proxy terminates has a certificate; a passed-through one has its own."""
    return tuple(replace(one, certificate=certificate(one.hostnames)) if one.mode == "l7" else one for one in found)


def ordered(found: Iterable[ProxyRoute]) -> tuple[ProxyRoute, ...]:
    """Of one or several services, always in the same order."""
    return tuple(sorted(found, key=lambda route: (route.service, route.component, route.route, route.hostnames)))


def _route(
    service: str,
    part: Part,
    route: Route,
    names: tuple[str, ...],
    seen: Sequence[Seen],
    tried: Collection[str],
    naming: Naming,
) -> ProxyRoute:
    published = {
        Backend(port.address, port.outside) for one in seen for port in one.container.ports if port.inside == route.port
    }
    return ProxyRoute(
        service,
        part.spec.component,
        route.name,
        route.mode,
        names,
        False,
        tuple(sorted(published)),
        listener_of(route),
        (hostname_of(service, route, naming.domains),) if route.public else (),
        protocol=route.protocol,
        pass_headers=route.pass_headers,
        answers=any(not _is_down(one, tried) for one in seen),
    )


def _is_down(seen: Seen, tried: Collection[str]) -> bool:
    """A short crash is none: it need not rewrite the proxy."""
    return seen.health == "unhealthy" or (seen.health == "failed" and seen.container.id in tried)


def digest(found: Iterable[ProxyRoute]) -> str:
    """The same for the same set, in any order (T-12)."""
    return canonical.digest(canonical.encode(ordered(found)))
