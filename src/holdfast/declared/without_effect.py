"""Decide which declared keys without an effect are refused and which are warned about.

A key is refused where the applied revision does not have it with this value. Where it has it, a plan warns and compiles
the same bytes as before. A value that equals the default declares nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct

from holdfast.declared import later, toml_file
from holdfast.declared.flaw import Flaws
from holdfast.declared.later import NO_WAY_BACK, OWN, TABLE, Later, Row
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.problem import Problems
from holdfast.declared.services import path_of
from holdfast.declared.sources import FILE_BYTES_MAX
from holdfast.declared.words import Path, key_path
from holdfast.model import canonical, dump
from holdfast.model.applied import Applied, content
from holdfast.model.fleet import Fleet, Node, Service, Storage, Volume
from holdfast.planning.kinds.every import documents
from holdfast.ports.fleet_directory import FleetDirectory

T = TypeVar("T")
PLACES_MAX = 5  # places that a warning names; the others are counted


class Use(Struct, frozen=True):
    """One declared key without an effect. `path` has the names of list elements in place of their indices."""

    file: str
    path: tuple[str, ...]
    row: Row
    value: object

    @property
    def later(self) -> Later:
        return TABLE[self.row]

    def __str__(self) -> str:
        return f"{self.file}: {key_path(self.path)}"


class Judged(Struct, frozen=True):
    refused: tuple[Use, ...]
    warned: tuple[Use, ...]

    def warnings(self) -> tuple[str, ...]:
        return tuple(f"{what}; {remedy}" for what, remedy in by_row(self.warned))


def remarks(judged: Judged) -> tuple[str, ...]:
    """All of them as warnings, for a caller that does not know the applied revision."""
    new = (f"{what}; {remedy} (holdfast plan refuses it if it is new)" for what, remedy in by_row(judged.refused))
    return (*new, *judged.warnings())


def judge(fleet: Fleet, applied: Applied | None) -> Judged:
    declared = _declared(fleet)
    texts = documents(fleet) if any(use.later.refused for uses in declared.values() for use in uses) else {}
    refused: list[Use] = []
    warned: list[Use] = []
    for address, uses in declared.items():
        old = _had(address, uses, texts, applied) if any(use.later.refused for use in uses) else frozenset()
        for use in uses:
            (refused if use.later.refused and use not in old else warned).append(use)
    return Judged(tuple(refused), tuple(warned))


def _had(address: str, uses: Sequence[Use], texts: Mapping[str, bytes], applied: Applied | None) -> Set[Use]:
    """The uses that the applied revision has at this address. Its content is read only where it differs."""
    entry = applied.table.entries.get(address) if applied else None
    if applied is None or entry is None:
        return frozenset()
    if entry.digest != canonical.digest(texts[address]):
        return frozenset(_applied(address, applied, entry.digest))
    if entry.applies_to is UNSET:  # no policy, or one whose binding is missing: an apply restores that
        return frozenset(uses)
    return frozenset(use for use in uses if use.value == entry.applies_to)


def refusal(refused: Sequence[Use], directory: FleetDirectory) -> Problems:
    files = sorted({use.file for use in refused})
    return problems(refused, {file: directory.read(file, FILE_BYTES_MAX) for file in files})


def problems(refused: Sequence[Use], contents: Mapping[str, bytes]) -> Problems:
    """The refusals as mistakes of the directory. `contents` has the files they are in, for the lines."""
    flaws = Flaws()
    tables = {file: toml_file.parse(text) for file, text in contents.items()}
    for use in refused:
        path = as_written(use.path, tables.get(use.file, {}))
        flaws.add(use.file, path, use.later.reason, use.later.remedy)
    return flaws.problems(contents)


def as_written(path: Iterable[str], document: Any) -> Path:
    """The path with the index of each list element in place of its name."""
    written: Path = ()
    for part in path:
        if isinstance(document, list):
            named = [item.get("name") if isinstance(item, dict) else item for item in document]
            if part not in named:
                return written
            at = named.index(part)
            written, document = (*written, at), document[at]
        else:
            written, document = (*written, part), document.get(part) if isinstance(document, dict) else None
    return written


def by_row(uses: Sequence[Use]) -> Iterator[tuple[str, str]]:
    """Reason with places, and remedy: once per row of the table, whatever the number of places."""
    found: dict[Row, list[Use]] = {}
    for use in uses:
        found.setdefault(use.row, []).append(use)
    for row, places in found.items():
        named = [str(use) for use in places[:PLACES_MAX]]
        if len(places) > PLACES_MAX:
            named.append(f"{len(places) - PLACES_MAX} more")
        yield f"{TABLE[row].reason} ({', '.join(named)})", TABLE[row].remedy


def _declared(fleet: Fleet) -> dict[str, list[Use]]:
    """Address → its uses, only where there are any."""
    found: dict[str, list[Use]] = {}
    for name, node in fleet.nodes.items():
        found["node." + name] = list(_of_node(node))
    for name, policy in fleet.policies.items():
        found["policy." + name] = [Use(FLEET_FILE, ("policies", name), _POLICIES, policy.applies_to)]
    for name, target in fleet.storage.items():
        found["storage." + name] = list(_of_storage(target))
    for name, service in fleet.services.items():
        found["service." + name] = list(_of_service(name, service))
    return {address: uses for address, uses in found.items() if uses}


def _applied(address: str, applied: Applied, digest: str) -> Iterator[Use]:
    """The uses in an applied node, storage target or service. A policy is one use as a whole."""
    kind, _, name = address.partition(".")
    if kind == "node":
        yield from _of_node(_read(applied, digest, address, Node))
    elif kind == "storage":
        yield from _of_storage(_read(applied, digest, address, Storage))
    elif kind == "service":
        yield from _of_service(name, _read(applied, digest, address, Service))


def _read(applied: Applied, digest: str, address: str, kind: type[T]) -> T:
    return msgspec.json.decode(content(applied.contents, digest, address), type=kind)


def _of_node(node: Node) -> Iterator[Use]:
    at = ("nodes", node.name)
    for role in node.roles:
        if later.of_value("Node", "roles", role):
            yield Use(FLEET_FILE, (*at, "roles", role), ("Node", "roles", role), role)
    if node.direct == "on":
        yield Use(FLEET_FILE, (*at, "direct"), ("Node", "direct", "on"), node.direct)
    if node.labels:
        yield Use(FLEET_FILE, (*at, "labels"), ("Node", "labels", ""), tuple(sorted(node.labels.items())))


def _of_storage(target: Storage) -> Iterator[Use]:
    at = ("storage", target.name)
    for key, value in (("type", target.type), ("role", target.role)):
        if later.of_value("Storage", key, value):
            yield Use(FLEET_FILE, (*at, key), ("Storage", key, value), value)
    if target.policy.schedule:
        yield Use(FLEET_FILE, (*at, "policy", "schedule"), ("StoragePolicy", "schedule", ""), target.policy.schedule)


def _of_service(name: str, service: Service) -> Iterator[Use]:
    file = path_of(name)
    if service.custody != "sealed":
        yield Use(file, ("custody",), ("Service", "custody", ""), service.custody)
    if service.snapshot is not UNSET and service.snapshot.method.startswith(dump.EXEC) and not service.snapshot.restore:
        yield Use(file, ("snapshot", "method"), NO_WAY_BACK, service.snapshot.method)
    for component in service.components:
        for volume in component.volumes:
            yield from _of_volume(file, ("components", component.name, "volumes"), volume)


def _of_volume(file: str, at: tuple[str, ...], volume: Volume | str) -> Iterator[Use]:
    if isinstance(volume, str):
        return
    where = (*at, volume.name)
    if volume.protect.startswith("own:"):
        yield Use(file, (*where, "protect"), OWN, volume.protect)
    if volume.speed != "fast":
        yield Use(file, (*where, "class"), ("Volume", "class", ""), volume.speed)


_POLICIES: Row = ("FleetFile", "policies", "")
