"""Warnings of a plan: what works, but probably not as its author thinks. Pure."""

from msgspec import UNSET

from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Fleet
from holdfast.model.nearest import hint
from holdfast.model.revision import Table
from holdfast.model.route import zone_of
from holdfast.planning import images


def of_services(fleet: Fleet, table: Table) -> tuple[str, ...]:
    found = []
    for name, service in fleet.services.items():
        entry = table.entries.get("service." + name)
        if entry is None:
            continue  # not part of this plan: its registry was not asked
        missing = [ref for ref in images.unpinned((service,)) if ref not in entry.images]
        found += [
            f"service.{name}: no registry gave a digest for {ref} (no answer, no such image, or no access); the tag is "
            f"applied as it is, so what runs may change without a plan (to pin it: {ref}@sha256:…)"
            for ref in missing
        ]
    found += [
        f"service.{name}: component {component.name} has PORT={component.env['PORT']} in its environment, but no route "
        f"uses that port ({', '.join(str(route.port) for route in component.routes)}); Holdfast does not set PORT: "
        "check which port it listens on"
        for name, service in fleet.services.items()
        for component in service.components
        if "PORT" in component.env and component.routes
        if component.env["PORT"] not in {str(route.port) for route in component.routes}
    ]
    found += [
        f"service.{name}: component {component.name}: {text}"
        for name, service in fleet.services.items()
        for component in service.components
        for text in _protocols(component)
    ]
    return tuple(sorted(found))


def _protocols(component: Component) -> list[str]:
    """A check in one version of HTTP says nothing about a route that speaks the other one to the same port."""
    check = component.health
    if check is UNSET or check.type not in ("http", "grpc"):
        return []
    says, needs = ("gRPC", "h2c") if check.type == "grpc" else ("HTTP/1.1", "http1")
    speaks = {"h2c": "HTTP/2 without TLS", "http1": "HTTP/1.1"}
    return [
        f"route {route.name} speaks {speaks[route.protocol]} to port {route.port}, and the health check {says}: if the "
        f'program there takes only one of them, callers get 502; then write protocol = "{needs}" in the route'
        for route in component.routes
        if route.mode == "l7" and route.port == check.port and route.protocol != needs
    ]


def unreached(table: Table, only: str | None = None) -> tuple[str, ...]:
    """Warnings: what edges and name servers need of a node that joined, and no apply has recorded yet."""
    found: dict[str, set[str]] = {}
    for address, entry in table.entries.items():
        if not entry.names or not entry.containers or only not in (None, address):
            continue
        home = table.entries.get(f"node.{entry.node}")
        if home is None or home.identity is UNSET:
            continue
        if not home.address:
            found.setdefault(str(entry.node), set()).add("its address in the overlay")
        if entry.public and not home.identity.certificate:
            found.setdefault(str(entry.node), set()).add("the certificate it issues from")
    return tuple(
        f"node.{node}: the ledger does not have {' and '.join(sorted(lacking))} yet, so names and public routes of "
        "services there do not work; once its agent runs: holdfast apply (or declare its address in fleet.toml)"
        for node, lacking in sorted(found.items())
    )


def unknown_consumers(fleet: Fleet) -> tuple[str, ...]:
    """A service may be listed before it is declared; or it is misspelt."""
    return tuple(
        f"provides.{name}: there is no service {service} yet; {hint(service, fleet.services)}".rstrip("; ")
        for name, provides in fleet.provides.items()
        for service in provides.services
        if service not in fleet.services
    )


def renamed_zone(fleet: Fleet, applied: Applied | None) -> tuple[str, ...]:
    """Another zone needs another issuing certificate on every node, and edges trust only recorded ones."""
    if applied is None or not any(entry.public for entry in applied.table.entries.values()):
        return ()
    before = zone_of(applied.fleet().settings)
    if before == zone_of(fleet.settings):
        return ()
    return (
        f"internal_zone changes from {before}: every node then issues from a new certificate, which only a second "
        "apply records; until then public names answer 502 (apply, wait a minute, apply again)",
    )
