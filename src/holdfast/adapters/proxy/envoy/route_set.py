"""One complete set of routes for Envoy: clusters, then certificates and request routes, then listeners."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.adapters.proxy.envoy import lingering_clusters, listeners, ports_taken, requests
from holdfast.adapters.proxy.envoy.files import OPENERS, TABLES, EnvoyFiles, Written, content_digest, statistic_of
from holdfast.adapters.proxy.envoy.listeners import Paths, Shown, Spot
from holdfast.adapters.proxy.envoy.names import PLAIN, kind_of, listed, raw
from holdfast.adapters.proxy.envoy.state import Lingering
from holdfast.adapters.proxy.envoy.supervisor import ACCESS_LOG
from holdfast.errors import Invalid, TryLater
from holdfast.model.route import HTTPS
from holdfast.ports.proxy import Listening, ProxyRoute


class RouteSet(Struct, frozen=True):
    """The requested routes, reduced to the ports that this machine can offer: another process may hold one."""

    listening: Listening
    routes: tuple[ProxyRoute, ...]  # all requested ones
    spots: tuple[Spot, ...]  # where it listens
    taken: Mapping[Spot, str]  # where it cannot listen, and why
    https: int
    served: tuple[ProxyRoute, ...]  # those whose port is available

    def clusters(self, lingering: Mapping[str, Lingering]) -> bytes:
        return lingering_clusters.all_clusters(self.served, lingering)

    def tables(self, challenges: Mapping[str, str]) -> dict[str, bytes]:
        found = requests.tables(self.served, challenges, self.https)
        return {TABLES[kind]: listed([table]) for kind, table in found.items()}

    def listeners(self, shown: Mapping[ProxyRoute, Shown], files: EnvoyFiles) -> bytes:
        made = [listeners.listener(spot, self.served, shown.__getitem__, _paths(files)) for spot in self.spots]
        return listed(raw(one) for one in made)

    def read(self) -> set[str]:
        """The tables and openers in use: of kinds with a listener that terminates HTTP."""
        kinds = {kind_of(one) for one in self.served if one.mode == "l7"}
        plain = {TABLES[PLAIN]} if any(spot.kind == PLAIN for spot in self.spots) else set()
        return plain | {file for kind in kinds for file in (TABLES[kind], OPENERS[kind])}

    def trouble(self, challenges: Mapping[str, str]) -> TryLater | None:
        """The error for the first unavailable port that this set needs."""
        for spot, why in self.taken.items():
            if listeners.at(spot, self.routes) or (spot.kind == PLAIN and challenges):
                return ports_taken.port_taken(spot.address, spot.port, why)
        return None


def gathered(
    listening: Listening, routes: Sequence[ProxyRoute], ports: Mapping[int, int], refused: Collection[Spot] = ()
) -> RouteSet:
    """`refused` are listeners that the proxy could not open although the check found the port free."""
    ordered = tuple(sorted(routes, key=_place))
    spots = listeners.spots(listening, ports)
    if twice := listeners.claimed_twice(spots, ordered):
        raise Invalid(f"two routes claim {twice}", remedy="rename one of them", code="hostname_taken")
    taken = {spot: why for spot in spots if (why := ports_taken.complaint(spot.address, spot.port))}
    taken |= dict.fromkeys(refused, ports_taken.TAKEN)
    left = tuple(spot for spot in spots if spot not in taken)
    own = {id(one) for spot in left for one in listeners.at(spot, ordered) if kind_of(one) == spot.kind}
    served = tuple(one for one in ordered if id(one) in own)
    return RouteSet(listening, ordered, left, taken, ports.get(HTTPS, HTTPS), served)


def openers(spots: Iterable[Spot], files: EnvoyFiles) -> dict[str, bytes]:
    """Of the listeners that terminate HTTP; all of one kind share one."""
    asked = {spot.kind: spot for spot in spots if spot.kind != PLAIN and spot.asked == HTTPS}
    return {OPENERS[kind]: listed([listeners.opener(spot, _paths(files))]) for kind, spot in asked.items()}


def _paths(files: EnvoyFiles) -> Paths:
    return Paths(files.path("requests"), files.path("openers"), files.path(ACCESS_LOG))


def _place(route: ProxyRoute) -> tuple[str, str, str, bool]:
    return route.service, route.component, route.route, route.public


class Having:
    """Files that are unchanged on disk and loaded by Envoy: they need not be written again."""

    def __init__(self, files: Mapping[str, Written], versions: Mapping[str, str], on_disk: EnvoyFiles) -> None:
        self._files = files
        self._versions = versions
        self._on_disk = on_disk

    def same(self, name: str, content: bytes) -> Written | None:
        found = self.whatever(name)
        if found is None or found.content != content_digest(content):
            return None
        return found if self._versions.get(statistic_of(name), found.version) == found.version else None

    def whatever(self, name: str) -> Written | None:
        found = self._files.get(name)
        return found if found is not None and self._on_disk.intact(name, found) else None
