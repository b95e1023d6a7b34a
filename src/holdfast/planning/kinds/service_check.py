"""Check a service's table entry against its document and the fleet's settings. Pure."""

import re
from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import mounts
from holdfast.model.fleet import Node, Service, Settings, Volume
from holdfast.model.move import Move
from holdfast.model.need import Want
from holdfast.model.revision import Entry, Table
from holdfast.model.route import PublicRoute
from holdfast.planning import images, needs, reach, secrets
from holdfast.planning.kinds.kind import Proposal, check_own_fields, read, refuse, settings_of
from holdfast.planning.placement import carries_services, has_data, is_public, unproxied
from holdfast.planning.service_entry import moved_data, serving_metadata
from holdfast.planning.unsound import Unsound

_IMAGE_DIGEST = r"sha256:[0-9a-f]{64}\Z"


class ServiceEntry(Struct, frozen=True):
    digest: str
    node: str | UnsetType
    epoch: int
    containers: int
    protect: bool
    hostnames: tuple[str, ...]
    ports: tuple[int, ...]
    images: dict[str, str]
    secrets: dict[str, str]
    failover: tuple[str, ...]
    names: tuple[str, ...]
    public: dict[str, PublicRoute]
    move: Move | UnsetType
    wants: dict[str, Want]


def check(proposal: Proposal) -> None:
    address, before, after, contents = proposal.address, proposal.before, proposal.after, proposal.contents
    fleet = proposal.fleet or settings_of(after, contents)
    entry, was, stone = proposal.entry, before.entries.get(address), before.tombstones.get(address)
    service = proposal.document(Service)
    moved = was is not None and (was.node != entry.node or _starts_again(was, entry))
    wanted = was.epoch + moved if was else (stone.epoch + 1 if stone else 1)
    if entry.epoch != wanted:
        raise Unsound(f"the epoch of {address} must be {wanted}, not {entry.epoch}")
    if was is not None and moved and (has_data(service) or has_data(read(contents, was, address, Service))):
        _check_move(address, was, entry)
    elif entry.move != (was.move if was is not None and not moved else UNSET):
        raise Unsound(f"the table has a move of data of {address}, which does not move")
    check_service(address, entry, service, contents, fleet.settings)
    _check_place(address, service, entry, after, contents)


def _starts_again(was: Entry, entry: Entry) -> bool:
    """On the node where it is, with a backup: that node is another machine now, or lost the data."""
    return entry.move is not UNSET and entry.move != was.move and entry.move.source == entry.node


def _check_move(address: str, was: Entry, entry: Entry) -> None:
    """Data moves only by a signed word about where it comes from."""
    move = entry.move
    if move is UNSET or move == was.move:
        raise moved_data(address[8:], str(was.node), str(entry.node))
    if move.source != was.node:
        raise Unsound(f"the data of {address} is on {was.node}, and the table has it move from {move.source}")
    if was.node == entry.node and not move.backup:
        raise Unsound(f"{address} is on {entry.node} already, and its move names no backup to start with")
    if move.back and (was.move is UNSET or was.move.back or not was.move.hands_over or was.move.source != entry.node):
        raise Unsound(f"the last move of {address} is none that {entry.node} could take back")
    if move.kept and (move.backup or move.back or move.aside):
        raise Unsound(f"the move of {address} goes on with a copy that is there, and has another source, too")
    if move.key and not move.backup:
        raise Unsound(f"the move of {address} has a key and no backup")


def check_service(
    address: str,
    entry: Entry,
    service: Service,
    contents: Mapping[str, bytes],
    settings: Settings | None = None,
) -> None:
    """Checks of an entry and its document alone, in any table; with the fleet's settings also the names that they
    mean."""
    check_own_fields(address, entry, ServiceEntry)
    count, protect, declared, ports = serving_metadata(service)
    claimed = reach.hostnames(declared, entry.public)
    if (count, protect, claimed, ports) != (entry.containers, entry.protect, entry.hostnames, entry.ports):
        raise Unsound(f"the table entry of {address} does not match its content")
    if settings is not None:
        check_reach(address, entry, service, settings)
    if entry.failover != service.failover:
        raise Unsound(f"the table names other failover nodes of {address} than its content")
    if service.failover and has_data(service):
        raise Unsound(f"{address} has data and failover nodes, which would run it without that data")
    _check_names(address, service)
    _check_images(address, service, entry)
    refuse(address, needs.complaints(service))
    needs.check_entry(address, entry, service)
    secrets.check(address, entry, service, contents)


def check_reach(address: str, entry: Entry, service: Service, settings: Settings) -> None:
    """Names and public routes must be exactly what content and settings mean; only the edge was chosen."""
    refuse(address, reach.complaints(address[8:], service, settings))
    wanted = reach.reach(address[8:], service, settings)
    if entry.names != wanted.names or reach.unassigned(entry.public) != wanted.public:
        raise Unsound(f"the table gives {address} other names or public routes than its content means")


def _check_names(address: str, service: Service) -> None:
    """A second thing of the same name would be hidden by the first."""
    components = [component.name for component in service.components]
    volumes = [(c.name, v) if isinstance(v, str) else v.name for c in service.components for v in c.volumes]
    routes = [(c.name, route.name) for c in service.components for route in c.routes]
    for names in (components, volumes, routes):
        if len(set(names)) != len(names):
            raise Unsound(f"{address} has two components, volumes or routes of the same name")
    paths = [v.path if isinstance(v, Volume) else v for c in service.components for v in c.volumes]
    if any(".." in re.split("[/:]", path) for path in paths):
        raise Unsound(f"{address} has a volume path that leaves its directory (..)")
    if inside := mounts.nested(service, address[8:]):
        raise Unsound(f"{address} mounts {inside[0]} from inside {inside[1]}, where a container could put a link")


def _check_images(address: str, service: Service, entry: Entry) -> None:
    known = set(images.unpinned((service,)))
    if not entry.images.keys() <= known or not all(re.match(_IMAGE_DIGEST, image) for image in entry.images.values()):
        raise Unsound(f"the table resolves images that {address} does not use, or to no digest")


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
