"""The table entry of a service: fields copied from its document, its names, edges and providers. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import NotPermitted
from holdfast.model.applied import content
from holdfast.model.fleet import Service, Settings
from holdfast.model.need import Provides
from holdfast.model.revision import Entry, Table
from holdfast.planning import needs
from holdfast.planning.edges import Edges
from holdfast.planning.placement import Placed, containers
from holdfast.planning.reach import hostnames, reach


def serving_metadata(service: Service) -> tuple[int, bool, tuple[str, ...], tuple[int, ...]]:
    """What an entry copies from its content so that serving and planning need not read it."""
    routes = [route for component in service.components for route in component.routes]
    return (
        containers(service) if service.active else 0,
        service.protect,
        tuple(sorted({str(route.hostname) for route in routes if route.hostname is not UNSET})),
        tuple(sorted({route.port for route in routes})),
    )


def met(name: str, service: Service, entry: Entry, provided: Mapping[str, Provides]) -> Entry:
    """The entry with the provider of each need. `provided`: by NODE.TYPE."""
    wants = needs.wants(name, service, provided) if service.needs else {}
    return replace(entry, wants=wants) if wants != entry.wants else entry


def met_by(name: str, service: Service, entry: Entry, table: Table, contents: Mapping[str, bytes]) -> Entry:
    """The same, from what a table has."""
    given = table.of_kind("provides").items() if service.needs else ()
    read = {one: msgspec.json.decode(content(contents, e.digest, f"provides.{one}"), type=Provides) for one, e in given}
    return met(name, service, entry, read)


def reached(
    name: str, service: Service, entry: Entry, settings: Settings, edges: Edges, must: bool = True
) -> tuple[Entry, dict[str, Placed]]:
    """The entry with its names, an edge for every public hostname, and the reasons.

    `must`: refuse a public route that no edge would serve, unless the service is inactive.
    """
    found = reach(name, service, settings)
    if not found.public:
        return replace(entry, names=found.names, public={}) if found.names or entry.public else entry, {}
    chosen: dict[str, Placed] = {}
    public = dict(found.public)
    for hostname, route in found.public.items():
        edge = edges.choose(hostname)
        if edge is not None:
            chosen[hostname] = edge
            public[hostname] = replace(route, edge=edge.node)
        elif must and service.active:
            raise edges.no_edge(name, hostname)
    claimed = hostnames(entry.hostnames, public)
    return replace(entry, names=found.names, public=public, hostnames=claimed), chosen


def moved_data(name: str, source: str, target: str) -> NotPermitted:
    return NotPermitted(
        f"service.{name} has data on {source}, which an apply does not move to {target}",
        remedy=f"holdfast migrate {name} --to {target}; or keep it there: "
        f'set node = "{source}" in services/{name}.toml',
        code="moves_data",
    )
