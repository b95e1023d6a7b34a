"""Kind `service`: containers with their names and routes. Its node and its standby nodes get it."""

from collections.abc import Iterable, Mapping

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.fleet import Fleet, Service
from holdfast.model.revision import Entry, Table
from holdfast.model.secret import names_of
from holdfast.planning import images
from holdfast.planning.documents import nameless
from holdfast.planning.kinds import service_check, service_grades, service_shown
from holdfast.planning.kinds.kind import Drawing, Kind, Section
from holdfast.planning.placement import has_data
from holdfast.planning.service_entry import met, moved_data, reached, serving_metadata


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"service.{name}": canonical.encode(nameless(service)) for name, service in fleet.services.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    name = address.partition(".")[2]
    service = drawing.fleet.services[name]
    entry = _placed(drawing, name, service, digest)
    if named := names_of(service):
        entry = replace(entry, secrets={one: drawing.sealed[one] for one in named if one in drawing.sealed})
    entry = met(name, service, entry, drawing.fleet.provides)
    entry, chosen = reached(name, service, entry, drawing.fleet.settings, drawing.edges)
    drawing.edged.update(chosen)
    return entry


def _placed(drawing: Drawing, name: str, service: Service, digest: str) -> Entry:
    address = f"service.{name}"
    before = drawing.applied.entries.get(address)
    stone = drawing.applied.tombstones.get(address)
    current = None if before is None or before.node is UNSET else before.node
    where = drawing.placer.place(name, service, current)
    drawing.placed[address] = where
    epoch = before.epoch if before else (stone.epoch + 1 if stone else 1)
    move = before.move if before and current == where.node else UNSET
    if before and current != where.node:
        if has_data(service):
            raise moved_data(name, current or "", where.node)
        epoch += 1
    known = images.resolved(service, drawing.image_digests, before.images if before else {})
    return Entry(digest, where.node, epoch, *serving_metadata(service), known, failover=service.failover, move=move)


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    if entry.node is not UNSET:
        yield entry.node, "services"
    for other in entry.failover:
        if other != entry.node:
            yield other, "standby"
    if entry.move is not UNSET and entry.move.hands_over and f"node.{entry.move.source}" in table.entries:
        yield entry.move.source, "handover"


KIND = Kind(
    name="service",
    schema=Service,
    view=service_check.ServiceEntry,
    documents=documents,
    draft=draft,
    check=service_check.check,
    demands=service_grades.demands,
    fields=service_shown.fields,
    why=service_shown.why,
    project=project,
)
