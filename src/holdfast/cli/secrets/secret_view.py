"""The secrets of a fleet as commands see them: which services use each, which keys open it. Opens none."""

import os
from argparse import Namespace
from collections.abc import Mapping

from msgspec import UNSET, Struct

from holdfast.cli.fleet import session
from holdfast.cli.tools import Toolbox
from holdfast.declared.secrets import path_of
from holdfast.errors import Invalid
from holdfast.model.applied import head_of, table_of
from holdfast.model.fleet import Fleet
from holdfast.model.ids import TRUST, is_name
from holdfast.model.purpose import resource_of
from holdfast.model.revision import Table
from holdfast.model.secret import refs_of, secrets_of
from holdfast.planning.kinds.every import documents
from holdfast.planning.secrets import nodes_of
from holdfast.planning.table import draft


class View(Struct, frozen=True):
    """`table`: as the next apply would make it, so that a service that is not applied yet has a node too."""

    fleet: Fleet
    table: Table
    directory: str
    fleet_id: str
    formats: Mapping[str, int]  # node → the newest format that its verified pulse names


def look(args: Namespace, box: Toolbox) -> View:
    current = session.begin(args, box, secrets_may_lack=True)
    args.offline = True  # the placement does not depend on registries
    known = session.inputs(current, args, box)
    number = head_of(current.applied).number + 1
    drafted = draft(
        current.fleet,
        documents(current.fleet),
        table_of(current.applied),
        known.seen,
        {},
        number,
        known.identities,
        known.revoked,
    )
    fleet_id = current.applied.fleet_id if current.applied else drafted.table.entries[TRUST].digest
    return View(current.fleet, drafted.table, args.fleet, fleet_id, known.uses.formats)


def checked_name(name: str) -> str:
    if not is_name(name):
        raise Invalid(
            f"{name[:60]!r} is not a valid name for a secret",
            remedy="use lower-case letters, digits and dashes, beginning with a letter, at most 40",
        )
    return name


def file_of(view: View, name: str) -> str:
    return os.path.join(view.directory, path_of(name))


def users(view: View, name: str) -> tuple[str, ...]:
    """`service.web/app`, `alerts.phone`, `storage.nas`, `provides.w1.postgres`, sorted: components, targets and
    providers that use it."""
    found = [
        f"service.{service}/{component.name}"
        for service, declared in view.fleet.services.items()
        for component in declared.components
        if any(ref.name == name for ref in refs_of(component))
    ]
    found += [f"alerts.{target.name}" for target in view.fleet.alerts.values() if target.secret == name]
    found += [f"storage.{target.name}" for target in view.fleet.storage.values() if target.secret == name]
    found += [f"provides.{given}" for given, one in view.fleet.provides.items() if name in secrets_of(one)]
    return tuple(sorted(found))


def services(view: View, name: str) -> tuple[str, ...]:
    return tuple(one for one in addresses(view, name) if one.startswith("service."))


def addresses(view: View, name: str) -> tuple[str, ...]:
    """Of its users, as a seal names them."""
    return tuple(sorted({user.partition("/")[0] for user in users(view, name)}))


def nodes(view: View, name: str, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Where services that use it are placed or may fail over to, and nodes that send alerts with it; `extra` are
    addresses that may have it."""
    resources = {resource_of(address) for address in (*addresses(view, name), *extra)}
    found = [nodes_of(view.table.entries[one]) for one in resources if one in view.table.entries]
    return tuple(sorted(frozenset[str]().union(*found)))


def key_of(view: View, node: str) -> str | None:
    entry = view.table.entries.get(f"node.{node}")
    return None if entry is None or entry.identity is UNSET else entry.identity.key
