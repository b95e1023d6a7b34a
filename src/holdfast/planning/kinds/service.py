"""Kind `service`: containers with their names and routes. Its node and its standby nodes get it."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.applied import plain
from holdfast.model.fleet import Fleet, Service
from holdfast.model.need import Want
from holdfast.model.plan import FieldChange
from holdfast.model.revision import Entry, Table
from holdfast.model.route import PublicRoute
from holdfast.model.secret import names_of
from holdfast.planning import images, needs
from holdfast.planning.documents import nameless
from holdfast.planning.fields import differences
from holdfast.planning.kinds import service_check, service_grades
from holdfast.planning.kinds.kind import Drawing, Kind, Section, Step
from holdfast.planning.placement import has_data
from holdfast.planning.service_entry import moved_data, reached, serving_metadata


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"service.{name}": canonical.encode(nameless(service)) for name, service in fleet.services.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    name = address.partition(".")[2]
    service = drawing.fleet.services[name]
    entry = _placed(drawing, name, service, digest)
    if named := names_of(service):
        entry = replace(entry, secrets={one: drawing.sealed[one] for one in named if one in drawing.sealed})
    if service.needs:
        entry = replace(entry, wants=needs.wants(name, service, drawing.fleet.provides))
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


def fields(step: Step) -> Iterator[FieldChange]:
    before, after = step.before, step.after
    if before is None or after is None:
        return
    if step.is_other_content:
        yield from differences(plain(step.content_before()), plain(step.content_after()))
    if before.names != after.names:
        yield FieldChange("names", list(before.names), list(after.names))
    for hostname in sorted(before.public.keys() | after.public.keys()):
        was_route, is_route = before.public.get(hostname), after.public.get(hostname)
        if was_route != is_route:
            yield FieldChange(f"public {hostname}", _route(was_route), _route(is_route))
    if before.node != after.node:
        yield FieldChange("placement", before.node or None, after.node or None)
    if before.epoch != after.epoch:
        yield FieldChange("epoch", before.epoch, after.epoch)
    if before.move != after.move and after.move is not UNSET:
        yield FieldChange("data", None, after.move.origin)
    for reference in sorted(before.images.keys() | after.images.keys()):
        was_digest, is_digest = before.images.get(reference), after.images.get(reference)
        if was_digest != is_digest:
            yield FieldChange(f"image {reference}", was_digest, is_digest)
    for name in sorted(before.wants.keys() | after.wants.keys()):
        had, has = before.wants.get(name), after.wants.get(name)
        if had != has:
            yield FieldChange(f"need {name}", _want(had), _want(has))
    for name in sorted(before.secrets.keys() | after.secrets.keys()):
        was_sealed, is_sealed = before.secrets.get(name), after.secrets.get(name)
        if was_sealed != is_sealed:
            yield FieldChange(f"secret {name}", was_sealed and was_sealed[:12], is_sealed and is_sealed[:12])


def _route(route: PublicRoute | None) -> str | None:
    if route is None:
        return None
    return f"{route.edge or 'no edge'} → {route.backend}:{route.listener} ({route.mode})"


def _want(want: Want | None) -> str | None:
    """With the facts: a provider that changes them changes what its consumers use."""
    if want is None:
        return None
    facts = ", ".join(f"{key} {fact}" for key, fact in sorted(want.facts.items()))
    return f"{want.type} of {want.provider} ({facts})"


def why(before: Entry | None, after: Entry) -> str:
    """What becomes public, moves between edges or is no longer public; and who meets its needs."""
    return "; ".join((*_reached(before, after), *_met(before, after)))


def _met(before: Entry | None, after: Entry) -> Iterator[str]:
    had = before.wants if before is not None else {}
    for name in sorted(had.keys() | after.wants.keys()):
        was, now = had.get(name), after.wants.get(name)
        if now is None:
            yield f"its need {name} ends"
        elif was is None:
            yield f"its need {name} is met by {now.provider} ({now.type})"
        elif (was.provider, was.type) != (now.provider, now.type):
            yield f"its need {name} is met by {now.provider} ({now.type}) in place of {was.provider} ({was.type})"


def _reached(before: Entry | None, after: Entry) -> list[str]:
    was = before.public if before is not None else {}
    words = []
    for hostname in sorted(was.keys() | after.public.keys()):
        old, new = was.get(hostname), after.public.get(hostname)
        if new is None:
            words.append(f"{hostname} is no longer public")
        elif old is None:
            words.append(f"{hostname} becomes public on {new.edge or 'no edge yet'}")
        elif old.edge != new.edge:
            words.append(f"{hostname} moves from {old.edge or 'no edge'} to {new.edge or 'no edge'}")
    return words


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
    fields=fields,
    why=why,
    project=project,
)
