"""May a table say this about a resource? What the command line would never write, the hub never accepts. Pure."""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model import mounts, ssh_key, trust
from holdfast.model.applied import content
from holdfast.model.fleet import AlertTarget, Node, Service, Storage, Volume
from holdfast.model.ids import kind_of, parse_address
from holdfast.model.revision import Entry, Table
from holdfast.planning import images, secrets
from holdfast.planning.documents import FleetDocument
from holdfast.planning.header import Unsound
from holdfast.planning.placement import carries_services, has_data
from holdfast.planning.table import moved_data, serving_metadata

T = TypeVar("T")

_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def check_entry(address: str, before: Table, after: Table, contents: Mapping[str, bytes]) -> None:
    """One created or changed address."""
    parse_address(address)
    entry, kind = after.entries[address], kind_of(address)
    if kind == "service":
        _check_service(address, before, after, contents)
        return
    own_identity = entry.identity if kind == "node" else UNSET
    bound = entry.applies_to if kind == "policy" else UNSET
    drained = kind == "node" and entry.drained
    if entry != Entry(entry.digest, applies_to=bound, identity=own_identity, drained=drained):
        raise Unsound(f"{address} carries what only another kind of resource has")
    if kind == "trust":
        _check_trust(read(contents, entry, address, trust.Trust))
    elif kind == "fleet":
        read(contents, entry, address, FleetDocument)
    elif kind == "node":
        _check_node(address, read(contents, entry, address, Node), entry)
    elif kind == "storage":
        _check_name(address, read(contents, entry, address, Storage).name)
    elif kind == "alert":
        _check_alert(address, read(contents, entry, address, AlertTarget))


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


def _check_alert(address: str, target: AlertTarget) -> None:
    _check_name(address, target.name)
    if (target.webhook is UNSET) == (target.apprise is UNSET):
        raise Unsound(f"{address} must say exactly one of webhook and apprise")


def check_table(table: Table) -> None:
    """What must hold between resources, also between those that did not change."""
    owners: dict[str, str] = {}
    for address, entry in table.entries.items():
        if entry.identity is not UNSET and owners.setdefault(entry.identity.key, address) != address:
            raise Unsound(f"{address} and {owners[entry.identity.key]} both have one key")
        if kind_of(address) != "service":
            continue
        if entry.node is UNSET or f"node.{entry.node}" not in table.entries:
            raise Unsound(f"{address} is placed on a node that is not in the table")
        if any(f"node.{name}" not in table.entries for name in entry.failover):
            raise Unsound(f"{address} fails over to a node that is not in the table")
        for hostname in entry.hostnames:
            if owners.setdefault(hostname, address) != address:
                raise Unsound(f"{address} and {owners[hostname]} both claim {hostname}")


def read(contents: Mapping[str, bytes], entry: Entry, address: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content(contents, entry.digest, address), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Unsound(f"the content of {address} cannot be read: {trouble}") from trouble


def _check_service(address: str, before: Table, after: Table, contents: Mapping[str, bytes]) -> None:
    entry, was, stone = after.entries[address], before.entries.get(address), before.tombstones.get(address)
    service = read(contents, entry, address, Service)
    moved = was is not None and was.node != entry.node
    wanted = was.epoch + moved if was else (stone.epoch + 1 if stone else 1)
    if entry.epoch != wanted:
        raise Unsound(f"the epoch of {address} must be {wanted}, not {entry.epoch}")
    if was is not None and moved and (has_data(service) or has_data(read(contents, was, address, Service))):
        raise moved_data(address[8:], str(was.node), str(entry.node))
    check_service(address, entry, service, contents)
    _check_place(address, service, entry, after, contents)


def check_service(address: str, entry: Entry, service: Service, contents: Mapping[str, bytes]) -> None:
    """What an entry and its content must be by themselves, whatever table they stand in."""
    if serving_metadata(service) != (entry.containers, entry.protect, entry.hostnames, entry.ports):
        raise Unsound(f"the table says something else about {address} than its content")
    if entry.failover != service.failover or entry.drained:
        raise Unsound(f"the table names other failover nodes of {address} than its content, or calls it drained")
    if service.failover and has_data(service):
        raise Unsound(f"{address} has data and failover nodes, which would run it without that data")
    _check_names(address, service)
    _check_images(address, service, entry)
    secrets.check(address, entry, service, contents)


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
    if entry.applies_to is not UNSET or entry.identity is not UNSET:
        raise Unsound(f"{address} carries bindings or a key, which services do not have")


def _check_place(address: str, service: Service, entry: Entry, after: Table, contents: Mapping[str, bytes]) -> None:
    if service.node is not UNSET and entry.node != service.node:
        raise Unsound(f"{address} is pinned to {service.node} and placed elsewhere")
    home = after.entries.get(f"node.{entry.node}")
    if home is None or not carries_services(read(contents, home, f"node.{entry.node}", Node)):
        raise Unsound(f"{address} is placed on a node that takes no services")


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
