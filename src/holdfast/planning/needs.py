"""The needs of a service: the checks of its own file, and the provider of each. Pure.

The command line shows the complaints with file and line; the hub and the nodes refuse a revision for the same ones.
"""

import posixpath
from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model.fleet import Component, Service, Volume
from holdfast.model.ids import is_name
from holdfast.model.nearest import hint
from holdfast.model.need import BUILT_IN, Need, Provides, Want
from holdfast.model.revision import Entry
from holdfast.model.secret import MOUNTED_AT
from holdfast.planning import providers
from holdfast.planning.complaint import Complaint, Path, quoted
from holdfast.planning.unsound import Unsound

_FACTS = {True: ("host", "port"), False: ("fields",)}  # of types that are built in, and of handlers


# ---- the file of the service ----------------------------------------------------------------------------------------


def complaints(service: Service) -> Iterator[Complaint]:
    """Everything that is wrong with its needs, whatever the fleet provides."""
    names: set[str] = set()
    for at, need in enumerate(service.needs):
        where: Path = ("needs", at)
        if need.name in names:
            yield Complaint((*where, "name"), f'"{need.name}" is the name of two needs', "rename one of them")
        names.add(need.name)
        if later := providers.not_built(need.type):
            yield Complaint((*where, *later.at), later.what, later.remedy)
        if need.type in BUILT_IN and need.params:
            key = next(iter(need.params))
            what = f"{quoted(key)} is not a parameter: a need of type {need.type} has none"
            yield Complaint((*where, "params", key), what, "remove it")
        if need.on_change.startswith("signal:"):
            what = f"{quoted(need.on_change)} is not built yet: a service gets no signal when values change"
            yield Complaint((*where, "on_change"), what, 'write on_change = "restart" or "nothing"')
        yield from _delivery(service, need, where)
    if service.needs and service.failover:
        what = "a service with needs cannot fail over: only its own node has its credentials"
        yield Complaint(("failover",), what, "remove failover, or the needs")
    yield from _paths(service)


def _delivery(service: Service, need: Need, where: Path) -> Iterator[Complaint]:
    known = [component.name for component in service.components]
    for index, name in enumerate(need.deliver.components):
        if name not in known:
            remedy = f"{hint(name, known)}the components are: {', '.join(known)}"
            what = f"there is no component {quoted(name)} in this service"
            yield Complaint((*where, "deliver", "components", index), what, remedy)
    if not {"", ".", ".."}.isdisjoint(need.path.rstrip("/").split("/")[1:]):
        what = f"{quoted(need.path)} has empty, . or .. parts"
        yield Complaint((*where, "deliver", "path"), what, "write the path without them")


def _paths(service: Service) -> Iterator[Complaint]:
    """A directory of credentials is no part of another mount of its containers, and contains none."""
    for component in service.components:
        taken = [(_whole(path), f"{what} of component {component.name}") for path, what in _mounts(component)]
        for at, need in enumerate(service.needs):
            if need.deliver.components and component.name not in need.deliver.components:
                continue
            if any(need.name == one.name for one in service.needs[:at]):
                continue  # refused already
            path = _whole(need.path)
            other = next((what for other, what in taken if path.startswith(other) or other.startswith(path)), "")
            if other:
                what = f"{quoted(need.path)} overlaps {other}"
                yield Complaint(("needs", at, "deliver", "path"), what, "choose a directory of its own")
                return
            taken.append((path, f'the need "{need.name}"'))


def _mounts(component: Component) -> Iterator[tuple[str, str]]:
    yield MOUNTED_AT, "the directory of secrets"
    for volume in component.volumes:
        path = volume.path if isinstance(volume, Volume) else volume.partition(":")[2]
        yield path, f"the volume {volume.name if isinstance(volume, Volume) else path}"
    for path in component.scratch:
        yield path, f"the scratch directory {path}"


def _whole(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/")).rstrip("/") + "/"


# ---- the provider ---------------------------------------------------------------------------------------------------


def wants(name: str, service: Service, provided: Mapping[str, Provides]) -> dict[str, Want]:
    """By name of the need. `provided`: by NODE.TYPE."""
    found: dict[str, Want] = {}
    for need in sorted(service.needs, key=lambda need: need.name):
        want = choice(name, need, provided)
        if isinstance(want, Complaint):
            raise Invalid(f"service.{name}: its need {need.name}: {want.what}", remedy=want.remedy, code="no_provider")
        found[need.name] = want
    return found


def choice(service: str, need: Need, provided: Mapping[str, Provides]) -> Want | Complaint:
    """The provider that the need names, else the only one of its type that lists the service."""
    of_type = [one for one in provided.values() if one.type == need.type]
    listing = [one for one in of_type if service in one.services]
    if need.provider is not UNSET:
        listing = [one for one in listing if one.node == need.provider]
    if len(listing) == 1:
        params = dict(sorted(need.params.items()))
        return Want(need.type, listing[0].node, params, providers.facts(listing[0]))
    if listing:
        nodes = sorted(one.node for one in listing)
        what = f"several nodes provide {need.type} to this service: {', '.join(nodes)}"
        return Complaint(("provider",), what, f'write provider = "{nodes[0]}", or another one of them')
    return _none(service, need, of_type, sorted({one.type for one in provided.values()}))


def _none(service: str, need: Need, of_type: list[Provides], types: list[str]) -> Complaint:
    if not of_type:
        near = hint(need.type, [*types, *BUILT_IN])
        return Complaint(
            ("type",),
            f"nothing provides {quoted(need.type)}",
            f'{near}add a [[provides]] with type = "{need.type}" and services = ["{service}"] to fleet.toml',
        )
    nodes = sorted(one.node for one in of_type)
    if need.provider is not UNSET and need.provider not in nodes:
        what = f"{need.provider} provides no {need.type}"
        near = hint(need.provider, nodes)
        return Complaint(("provider",), what, f"{near}nodes that provide it are: {', '.join(nodes)}")
    asked = [need.provider] if need.provider is not UNSET else nodes
    what = f"no [[provides]] of {need.type} lists this service (those of: {', '.join(asked)})"
    remedy = f'add "{service}" to services of [[provides]] of {asked[0]} in fleet.toml (grade destroy)'
    return Complaint(("type",), what, remedy)


# ---- an entry of the table ------------------------------------------------------------------------------------------


def check_entry(address: str, entry: Entry, service: Service) -> None:
    """What the entry and the document alone show; planning/pairs.py compares with what is provided."""
    if tuple(sorted(entry.wants)) != tuple(sorted(need.name for need in service.needs)):
        raise Unsound(f"the table gives {address} other needs than its content names")
    for need in service.needs:
        want = entry.wants[need.name]
        if (want.type, want.params) != (need.type, need.params) or need.provider not in (UNSET, want.provider):
            raise Unsound(f"the table gives {address} another need {need.name} than its content means")
        if not is_name(want.provider) or not is_factual(want):
            raise Unsound(f"the provider of the need {need.name} of {address} cannot be what the table says")


def is_factual(want: Want) -> bool:
    """Whether a consumer can use the facts: the keys of its type, each on one line."""
    known = _FACTS[want.type in BUILT_IN]
    return tuple(sorted(want.facts)) == known and all(fact and fact.isprintable() for fact in want.facts.values())
