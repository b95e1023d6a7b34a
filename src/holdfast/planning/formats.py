"""The format of revisions that a node must read for each thing that older agents do not understand. Pure.

Every pulse names the newest format that its agent reads. A plan of any kind that sends such a thing to a node whose
verified pulse names an older format is refused: the agent would misread it, or ignore it. What is applied there already
stays.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import Conflict, Corrupt
from holdfast.model import dump
from holdfast.model.applied import Applied, content, table_of
from holdfast.model.fleet import AlertTarget, FleetDocument, Retain, Service, Storage, Volume
from holdfast.model.ids import FLEET, TRUST
from holdfast.model.need import Provides
from holdfast.model.revision import Entry, Table
from holdfast.model.trust import Trust

NEWEST = 8  # what this release reads
MOVES = 6  # of data (model/move.py), judged by require_move
RETURNS = 7  # of a service with a backup to the node where it is, judged there, too
NEEDS = 8  # of services: asked of the provider for each new pair, and of both by the rows below
NOT_ASKED: Mapping[str, int] = {}

T = TypeVar("T")


class Feature(Struct, Generic[T], frozen=True):
    """`key` is its place in the documents: a test compares the table with their fields."""

    key: str
    format: int
    what: str  # for people, after "cannot read"
    is_used: Callable[[T], bool]


BOUND_SECRETS = 2  # the purpose inside the seal (model/purpose.py), judged by planning/secrets.py for each new use

OF_SERVICES: tuple[Feature[Service], ...] = (
    Feature(
        "Service.components.volumes.checkpoint",
        2,
        'checkpoint = "off" of a volume',
        lambda service: any(
            isinstance(volume, Volume) and volume.checkpoint != "auto"
            for component in service.components
            for volume in component.volumes
        ),
    ),
    Feature(
        "Service.components.routes.pass_headers",
        2,  # some agents of format 1 read it, but their pulse does not tell
        "pass_headers of a route",
        lambda service: any(route.pass_headers for component in service.components for route in component.routes),
    ),
    Feature(
        "Service.components.user",
        2,
        "user of a component",
        lambda service: any(component.user is not UNSET for component in service.components),
    ),
    Feature(
        "Service.components.scratch",
        2,
        "scratch of a component",
        lambda service: any(component.scratch for component in service.components),
    ),
    Feature(
        "Service.components.settle",
        3,
        "settle of a component",
        lambda service: any(component.settle is not UNSET for component in service.components),
    ),
    Feature(
        "Service.components.stop_timeout",
        4,
        "stop_timeout of a component",
        lambda service: any(component.stop_timeout is not UNSET for component in service.components),
    ),
    Feature("Service.needs", NEEDS, "needs", lambda service: bool(service.needs)),
    Feature("Service.drill", 5, "drill of a service", lambda service: service.drill is not UNSET),
    Feature(
        "Service.snapshot.restore",
        5,
        "a method of [snapshot] that makes a dump",  # older agents read exec: and copy the files instead
        lambda service: service.snapshot is not UNSET and dump.is_dumped(service.snapshot),
    ),
    Feature(
        "Service.snapshot.method",
        5,
        "the methods grpc and cli of [snapshot]",  # older agents read them and copy the files without asking
        lambda service: service.snapshot is not UNSET and service.snapshot.method in dump.PREPARED,
    ),
    Feature(
        "Service.snapshot.component",
        5,
        "component of [snapshot]",
        lambda service: service.snapshot is not UNSET and service.snapshot.component is not UNSET,
    ),
    Feature(
        "Service.snapshot.volume",
        5,
        "volume of [snapshot]",
        lambda service: service.snapshot is not UNSET and service.snapshot.volume is not UNSET,
    ),
    Feature(
        "Service.components.volumes.owner",
        2,
        "owner of a volume",
        lambda service: any(
            isinstance(volume, Volume) and volume.owner is not UNSET
            for component in service.components
            for volume in component.volumes
        ),
    ),
)

OF_ALERTS: tuple[Feature[AlertTarget], ...] = (
    Feature("AlertTarget.nodes", 2, "an alert target that nodes send to", lambda target: bool(target.nodes)),
    Feature("AlertTarget.quiet", 4, "quiet hours of an alert target", lambda target: target.quiet is not UNSET),
)

OF_STORAGE: tuple[Feature[Storage], ...] = (
    Feature("Storage.location", 5, "a storage target", lambda target: True),  # older agents use none
)

OF_PROVIDES: tuple[Feature[Provides], ...] = (Feature("Provides.type", NEEDS, "[[provides]]", lambda one: True),)

OF_FLEET: tuple[Feature[FleetDocument], ...] = (
    Feature(
        "FleetDocument.backups.retain.last",
        5,
        "a table as retain of [backups]",
        lambda fleet: isinstance(fleet.backups.retain, Retain),
    ),
    Feature("FleetDocument.backups.cron", 5, "cron of [backups]", lambda fleet: fleet.backups.cron is not UNSET),
    Feature(
        "FleetDocument.backups.drill_cron",
        5,
        "drill_cron of [backups]",
        lambda fleet: fleet.backups.drill_cron is not UNSET,
    ),
)

OF_TRUST: tuple[Feature[Trust], ...] = (
    Feature(
        "Trust.thresholds.destroy_requires",
        2,
        "destroy_requires of [trust]",
        lambda trust: trust.thresholds.destroy_requires is not UNSET,
    ),
    Feature(
        "Trust.operators.scope",
        2,  # the field is older; older agents read "name:" and "node:" as addresses, and bound nothing by them
        'a scope with "name:" or "node:"',
        lambda trust: any(":" in item for operator in trust.operators for item in operator.scope),
    ),
)


def require(table: Table, contents: Mapping[str, bytes], applied: Applied | None, formats: Mapping[str, int]) -> None:
    """`formats`: node → the newest format that its verified pulse names. Nodes without a pulse are not asked."""
    if all(known >= NEWEST for known in formats.values()):
        return
    before = table_of(applied).entries
    for address, entry in table.entries.items():
        if entry == before.get(address):
            continue
        if address == TRUST:
            _require_trust(_read(contents, entry, address, Trust), applied, formats)
        elif address == FLEET:
            _require_fleet(_read(contents, entry, address, FleetDocument), applied, formats)
        elif address.startswith("storage."):
            _require_storage(address, _read(contents, entry, address, Storage), applied, formats)
        elif address.startswith("provides."):
            _require_provides(address, _read(contents, entry, address, Provides), applied, formats)
        elif address.startswith("service."):
            _require_service(address, _read(contents, entry, address, Service), entry, applied, formats)
        elif address.startswith("alert."):
            _require_target(address, _read(contents, entry, address, AlertTarget), applied, formats)


def require_move(entry: Entry, formats: Mapping[str, int]) -> None:
    """Of a service whose data moves: its new node reads it, and the old one if it takes part; if not, the edges read
    that nothing leads there any more."""
    if entry.move is UNSET:
        return
    edges = sorted({route.edge for route in entry.public.values() if route.edge})
    for node in (str(entry.node), *((entry.move.source,) if entry.move.hands_over else edges)):
        if formats.get(node, MOVES) < MOVES:
            raise too_old(node, "moves of data")
    home = str(entry.node)
    if entry.move.source == home and formats.get(home, RETURNS) < RETURNS:
        raise too_old(home, "a service that starts again with a backup")


def _read(contents: Mapping[str, bytes], entry: Entry, address: str, kind: type[T]) -> T:
    return msgspec.json.decode(content(contents, entry.digest, address), type=kind)


def _require_trust(trust: Trust, applied: Applied | None, formats: Mapping[str, int]) -> None:
    for feature, node in _unread(OF_TRUST, trust, formats, sorted(formats)):
        if applied is None or not feature.is_used(applied.trust):
            raise too_old(node, feature.what)


def _require_fleet(fleet: FleetDocument, applied: Applied | None, formats: Mapping[str, int]) -> None:
    for feature, node in _unread(OF_FLEET, fleet, formats, sorted(formats)):
        if applied is None or not feature.is_used(applied.fleet()):
            raise too_old(node, feature.what)


def _require_storage(address: str, target: Storage, applied: Applied | None, formats: Mapping[str, int]) -> None:
    for feature, node in _unread(OF_STORAGE, target, formats, sorted(target.nodes or formats)):
        raise too_old(node, f"{feature.what} ({address})")


def _require_provides(address: str, provides: Provides, applied: Applied | None, formats: Mapping[str, int]) -> None:
    if address in table_of(applied).entries:
        return
    for feature, node in _unread(OF_PROVIDES, provides, formats, [provides.node]):
        raise too_old(node, f"{feature.what} ({address})")


def _require_service(
    address: str, service: Service, entry: Entry, applied: Applied | None, formats: Mapping[str, int]
) -> None:
    was = table_of(applied).entries.get(address)
    for feature, node in _unread(OF_SERVICES, service, formats, _nodes(entry)):
        if applied is None or was is None or node not in _nodes(was) or not _was_used(feature, applied, address):
            raise too_old(node, f"{feature.what} of {address}")
    had = {want.provider for want in was.wants.values()} if was is not None else set()
    for provider in sorted({want.provider for want in entry.wants.values()} - had):
        if formats.get(provider, NEEDS) < NEEDS:
            raise too_old(provider, f"needs of {address}")


def _require_target(address: str, target: AlertTarget, applied: Applied | None, formats: Mapping[str, int]) -> None:
    was = table_of(applied).entries.get(address)
    had = (was.applies_to or ()) if was is not None else ()
    for feature, node in _unread(OF_ALERTS, target, formats, sorted(target.nodes)):
        if f"node.{node}" not in had or not _was_used_by(feature, applied, was):
            raise too_old(node, f"{feature.what} ({address})")


def _unread(
    features: tuple[Feature[T], ...], document: T, formats: Mapping[str, int], nodes: list[str]
) -> Iterator[tuple[Feature[T], str]]:
    for feature in features:
        older = [node for node in nodes if formats.get(node, NEWEST) < feature.format]
        if older and feature.is_used(document):
            yield from ((feature, node) for node in older)


def _nodes(entry: Entry) -> list[str]:
    """Those that get the document, or a part of it."""
    home = () if entry.node is UNSET else (entry.node,)
    edges = (route.edge for route in entry.public.values() if route.edge)
    return sorted({*home, *entry.failover, *edges})


def _was_used(feature: Feature[Service], applied: Applied, address: str) -> bool:
    try:
        return feature.is_used(applied.service(address.removeprefix("service.")))
    except Corrupt:
        return False


def _was_used_by(feature: Feature[AlertTarget], applied: Applied | None, entry: Entry | None) -> bool:
    if applied is None or entry is None:
        return False
    try:
        return feature.is_used(_read(applied.contents, entry, "", AlertTarget))
    except Corrupt:
        return False


def too_old(node: str, what: str) -> Conflict:
    return Conflict(
        f"the agent on {node} is of an older release, which cannot read {what}",
        remedy=f"upgrade the agent on {node} to this release and start it again; then repeat the command",
        code="agent_too_old",
    )
