"""May a table say this about a resource? What the command line would never write, the hub never accepts. Pure."""

import re
from collections.abc import Iterable, Mapping, Set
from typing import TypeVar

import msgspec
from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model import canonical, mounts, ssh_key, trust
from holdfast.model.applied import content
from holdfast.model.fleet import AlertTarget, FleetDocument, Node, Service, Settings, Storage, Volume
from holdfast.model.ids import FLEET, kind_of, parse_address
from holdfast.model.revision import Entry, Table
from holdfast.planning import images, infrastructure, overlay, reach, secrets
from holdfast.planning.complaint import Complaint
from holdfast.planning.edges import proxy_of
from holdfast.planning.header import Unsound
from holdfast.planning.placement import carries_services, has_data, is_public, unproxied
from holdfast.planning.table import moved_data, serves_names, serving_metadata

T = TypeVar("T")

_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def check_entry(
    address: str,
    before: Table,
    after: Table,
    contents: Mapping[str, bytes],
    fleet: FleetDocument | None = None,
) -> None:
    """One created or changed address. `fleet`: what the fleet of `after` says, given by a hub. A node looks it up, and
    may meet entries that an older release wrote; a hub takes no new ones of those."""
    parse_address(address)
    entry, kind = after.entries[address], kind_of(address)
    if kind == "service":
        _check_service(address, before, after, contents, fleet or settings_of(after, contents))
        return
    if entry != _bare(entry, kind):
        raise Unsound(f"{address} carries what only another kind of resource has")
    if kind == "trust":
        _check_trust(read(contents, entry, address, trust.Trust))
    elif kind == "fleet":
        _refuse(address, infrastructure.fleet_complaints(read(contents, entry, address, FleetDocument)))
    elif kind == "node":
        node = read(contents, entry, address, Node)
        _check_node(address, node, entry)
        if fleet is not None or entry.proxy:
            check_address(address, node, entry, fleet or settings_of(after, contents))
    elif kind == "storage":
        _check_name(address, read(contents, entry, address, Storage).name)
    elif kind == "alert":
        _check_alert(address, read(contents, entry, address, AlertTarget))


def _bare(entry: Entry, kind: str) -> Entry:
    """The entry with nothing but what its kind may carry."""
    if kind == "policy":
        return Entry(entry.digest, applies_to=entry.applies_to)
    if kind != "node":
        return Entry(entry.digest)
    return Entry(
        entry.digest,
        identity=entry.identity,
        drained=entry.drained,
        address=entry.address,
        proxy=entry.proxy,
        dns=entry.dns,
    )


def settings_of(table: Table, contents: Mapping[str, bytes]) -> FleetDocument:
    """What the fleet of this very table says: names, domains and networks are judged by it."""
    if FLEET not in table.entries:
        raise Unsound("the table lacks the fleet resource")
    return read(contents, table.entries[FLEET], FLEET, FleetDocument)


def _refuse(address: str, found: Iterable[Complaint]) -> None:
    for complaint in found:
        raise Unsound(f"{address}: {complaint.what}")


def check_address(address: str, node: Node, entry: Entry, fleet: FleetDocument) -> None:
    """How a node is reached, and what it answers: exactly what its declaration and the fleet's settings mean."""
    if entry.address != node.address and node.address:
        raise Unsound(f"{address} declares one address and the table has another")
    if entry.address and (wrong := overlay.outside(entry.address, fleet.settings.overlay_cidr)):
        raise Unsound(f"{address}: {wrong}")
    if entry.proxy != proxy_of(node) or entry.dns != serves_names(node.name, fleet.dns):
        raise Unsound(f"the table gives {address} another proxy or other names to answer for than it declares")
    _refuse(address, infrastructure.node_complaints(node, fleet.settings, fleet.overlay))


def _check_name(address: str, name: str) -> None:
    if address.partition(".")[2] != name:
        raise Unsound(f"the content of {address} calls itself {name}")


def _check_node(address: str, node: Node, entry: Entry) -> None:
    _check_name(address, node.name)
    known = entry.identity
    if known is UNSET:
        if node.key:
            raise Unsound(f"{address} declares a key that the table does not pin")
        return
    try:
        key = ssh_key.parse(known.key)
        declared = ssh_key.line(ssh_key.parse(node.key)) if node.key else known.key
    except Invalid as trouble:
        raise Unsound(f"the key of {address} is unusable: {trouble.message}") from trouble
    if key.type != "ssh-ed25519" or ssh_key.line(key) != known.key:
        raise Unsound(f"the key of {address} is not a plain ssh-ed25519 line")
    if declared != known.key:
        raise Unsound(f"{address} declares one key and the table pins another")
    if known.certificate and canonical.digest(known.certificate) != known.issuer:
        raise Unsound(f"the table gives {address} another issuing certificate than it pins")


def _check_alert(address: str, target: AlertTarget) -> None:
    _check_name(address, target.name)
    if (target.webhook is UNSET) == (target.apprise is UNSET):
        raise Unsound(f"{address} must say exactly one of webhook and apprise")


def check_table(table: Table) -> None:
    """What must hold between resources, also between those that did not change."""
    owners: dict[str, str] = {}
    edges = {address[5:] for address, entry in table.entries.items() if entry.proxy == "public"}
    for address, entry in table.entries.items():
        if entry.identity is not UNSET and owners.setdefault(entry.identity.key, address) != address:
            raise Unsound(f"{address} and {owners[entry.identity.key]} both have one key")
        if entry.address and owners.setdefault(entry.address, address) != address:
            raise Unsound(f"{address} and {owners[entry.address]} both have the address {entry.address}")
        if not address.startswith("service."):
            continue
        if entry.node is UNSET or f"node.{entry.node}" not in table.entries:
            raise Unsound(f"{address} is placed on a node that is not in the table")
        if any(f"node.{name}" not in table.entries for name in entry.failover):
            raise Unsound(f"{address} fails over to a node that is not in the table")
        for hostname in (*entry.hostnames, *entry.names):
            if owners.setdefault(hostname, address) != address:
                raise Unsound(f"{address} and {owners[hostname]} both claim {hostname}")
        if entry.public:
            _check_edges(address, entry, edges)


def check_settings(before: Table, after: Table, contents: Mapping[str, bytes], fleet: FleetDocument) -> None:
    """Other settings mean other names, domains and networks also for what did not change itself."""
    nodes = {address[5:] for address in after.entries if address.startswith("node.")}
    for _, unknown in infrastructure.unknown_servers(fleet.dns, nodes):
        raise Unsound(f"[dns] names {unknown}, which is not a node of the table")
    for address, entry in after.entries.items():
        if before.entries.get(address) != entry:
            continue  # checked by itself
        if address.startswith("node."):
            check_address(address, read(contents, entry, address, Node), entry, fleet)
        elif address.startswith("service."):
            check_reach(address, entry, read(contents, entry, address, Service), fleet.settings)


def _check_edges(address: str, entry: Entry, edges: Set[str]) -> None:
    """Without any edge nobody answers for a public hostname; with one, somebody does."""
    for hostname, route in entry.public.items():
        if route.edge not in edges and (route.edge or edges):
            raise Unsound(f"{hostname} of {address} is given to {route.edge or 'nobody'}, which is not an edge")


def read(contents: Mapping[str, bytes], entry: Entry, address: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content(contents, entry.digest, address), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Unsound(f"the content of {address} cannot be read: {trouble}") from trouble


def _check_service(
    address: str, before: Table, after: Table, contents: Mapping[str, bytes], fleet: FleetDocument
) -> None:
    entry, was, stone = after.entries[address], before.entries.get(address), before.tombstones.get(address)
    service = read(contents, entry, address, Service)
    moved = was is not None and was.node != entry.node
    wanted = was.epoch + moved if was else (stone.epoch + 1 if stone else 1)
    if entry.epoch != wanted:
        raise Unsound(f"the epoch of {address} must be {wanted}, not {entry.epoch}")
    if was is not None and moved and (has_data(service) or has_data(read(contents, was, address, Service))):
        raise moved_data(address[8:], str(was.node), str(entry.node))
    check_service(address, entry, service, contents, fleet.settings)
    _check_place(address, service, entry, after, contents)


def check_service(
    address: str,
    entry: Entry,
    service: Service,
    contents: Mapping[str, bytes],
    settings: Settings | None = None,
) -> None:
    """What an entry and its content must be by themselves, whatever table they stand in; with the fleet's settings also
    which names that means."""
    count, protect, declared, ports = serving_metadata(service)
    claimed = reach.hostnames(declared, entry.public)
    if (count, protect, claimed, ports) != (entry.containers, entry.protect, entry.hostnames, entry.ports):
        raise Unsound(f"the table says something else about {address} than its content")
    if settings is not None:
        check_reach(address, entry, service, settings)
    if entry.failover != service.failover or entry.drained:
        raise Unsound(f"the table names other failover nodes of {address} than its content, or calls it drained")
    if service.failover and has_data(service):
        raise Unsound(f"{address} has data and failover nodes, which would run it without that data")
    _check_names(address, service)
    _check_images(address, service, entry)
    secrets.check(address, entry, service, contents)


def check_reach(address: str, entry: Entry, service: Service, settings: Settings) -> None:
    """Names and public routes are exactly what content and settings mean; only who answers was chosen."""
    _refuse(address, reach.complaints(address[8:], service, settings))
    wanted = reach.reach(address[8:], service, settings)
    if entry.names != wanted.names or reach.unassigned(entry.public) != wanted.public:
        raise Unsound(f"the table gives {address} other names or public routes than its content means")


def _check_names(address: str, service: Service) -> None:
    """A second thing of one name would hide behind the first one."""
    components = [component.name for component in service.components]
    volumes = [(c.name, v) if isinstance(v, str) else v.name for c in service.components for v in c.volumes]
    routes = [(c.name, route.name) for c in service.components for route in c.routes]
    for names in (components, volumes, routes):
        if len(set(names)) != len(names):
            raise Unsound(f"{address} has two components, volumes or routes of one name")
    paths = [v.path if isinstance(v, Volume) else v for c in service.components for v in c.volumes]
    if any(".." in re.split("[/:]", path) for path in paths):
        raise Unsound(f"{address} has a volume path that climbs out of its directory")
    if inside := mounts.nested(service, address[8:]):
        raise Unsound(f"{address} mounts {inside[0]} from inside {inside[1]}, where a container could put a link")


def _check_images(address: str, service: Service, entry: Entry) -> None:
    known = set(images.unpinned((service,)))
    if not entry.images.keys() <= known or not all(map(_IMAGE_DIGEST.match, entry.images.values())):
        raise Unsound(f"the table resolves images that {address} does not use, or to no digest")
    if entry.applies_to is not UNSET or entry.identity is not UNSET or entry.address or entry.proxy or entry.dns:
        raise Unsound(f"{address} carries bindings, a key or an address, which services do not have")


def _check_place(address: str, service: Service, entry: Entry, after: Table, contents: Mapping[str, bytes]) -> None:
    if service.node is not UNSET and entry.node != service.node:
        raise Unsound(f"{address} is pinned to {service.node} and placed elsewhere")
    for name in (str(entry.node), *(entry.failover if is_public(service) else ())):
        home = after.entries.get(f"node.{name}")
        node = None if home is None else read(contents, home, f"node.{name}", Node)
        if node is None or not carries_services(node):
            raise Unsound(f"{address} is placed on a node that takes no services")
        if is_public(service) and (why := unproxied(node)):
            raise Unsound(f"{address} is public, and {name} {why}")


def _check_trust(found: trust.Trust) -> None:
    """A trust nobody can act under would lock everybody out for good."""
    keys = set()
    for operator in found.operators:
        try:
            keys.add(ssh_key.parse(operator.key).blob)
        except Invalid as trouble:
            raise Unsound(f"the key of operator {operator.name} is unusable: {trouble.message}") from trouble
    if len(keys) != len(found.operators):
        raise Unsound("two operators share one key")
    for grade in trust.GRADES:
        able = sum(trust.may_sign(operator, grade) for operator in found.operators)
        if able < trust.threshold(found, grade):
            raise Unsound(f"only {able} operators could sign for grade {grade}")
