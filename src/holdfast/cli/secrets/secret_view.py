"""The secrets of a fleet as commands see them: which services use each, which keys open it. Opens none."""

import os
from argparse import Namespace

from msgspec import UNSET, Struct

from holdfast.cli.fleet import session
from holdfast.cli.tools import Toolbox
from holdfast.declared.secrets import path_of
from holdfast.errors import Invalid
from holdfast.model import sealed
from holdfast.model.applied import head_of, table_of
from holdfast.model.fleet import Fleet
from holdfast.model.ids import is_name
from holdfast.model.revision import Table
from holdfast.model.secret import refs_of
from holdfast.planning.kinds.every import documents
from holdfast.planning.table import draft


class View(Struct, frozen=True):
    """`table`: as the next apply would make it, so that a service that is not applied yet has a node too."""

    fleet: Fleet
    table: Table
    directory: str


class Recipients(Struct, frozen=True):
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    waiting: tuple[str, ...]  # nodes that need it and have no key yet
    lines: tuple[str, ...]  # what it is sealed to


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
    return View(current.fleet, drafted.table, args.fleet)


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
    """`service.web/app`, sorted: components that use it."""
    return tuple(
        sorted(
            f"service.{service}/{component.name}"
            for service, declared in view.fleet.services.items()
            for component in declared.components
            if any(ref.name == name for ref in refs_of(component))
        )
    )


def services(view: View, name: str) -> tuple[str, ...]:
    return tuple(sorted({user.partition("/")[0] for user in users(view, name)}))


def nodes(view: View, name: str) -> tuple[str, ...]:
    """Where services that use it are placed or may fail over to."""
    found: set[str] = set()
    for address in services(view, name):
        entry = view.table.entries[address]
        found |= {str(entry.node), *view.fleet.services[address[8:]].failover}
    return tuple(sorted(found))


def key_of(view: View, node: str) -> str | None:
    entry = view.table.entries.get(f"node.{node}")
    return None if entry is None or entry.identity is UNSET else entry.identity.key


def recipients(view: View, name: str) -> Recipients:
    people = [(o.name, o.recipient) for o in view.fleet.operators if o.recipient is not UNSET]
    wanted = nodes(view, name)
    keys = {node: key for node in wanted if (key := key_of(view, node)) is not None}
    lines = (*(str(recipient) for _, recipient in people), *keys.values())
    if not lines:
        raise Invalid(
            f"{name} has no recipient: no operator has one in fleet.toml, and no node that needs it has joined",
            remedy='add recipient = "age1…" to your [[operators]] in fleet.toml (age-keygen creates one)',
            code="no_recipients",
        )
    return Recipients(tuple(n for n, _ in people), tuple(keys), tuple(n for n in wanted if n not in keys), lines)


def write(view: View, name: str, value: bytes, to: Recipients, box: Toolbox) -> None:
    content = sealed.armoured(box.keys.sealer().seal(value, to.lines))
    if len(content) > sealed.FILE_BYTES_MAX:
        raise Invalid(
            f"sealed to {len(to.lines)} recipients, the secret is longer than {sealed.FILE_BYTES_MAX:,} bytes",
            remedy="make the value shorter",
        )
    path = file_of(view, name)
    box.disk.make_directory(os.path.dirname(path), 0o755)
    box.disk.replace(path, content, 0o644)


def whom(to: Recipients) -> str:
    return ", ".join((*(f"operator {name}" for name in to.operators), *(f"node {name}" for name in to.nodes)))


def tell(name: str, to: Recipients, used_by: tuple[str, ...], box: Toolbox) -> None:
    """Remarks and warnings about the sealed secret, to stderr."""
    if not used_by:
        box.terminal.remark(
            f"No component uses {name} yet, so only operators can open it. Use it in a service, then: "
            f"holdfast secret rotate {name} --keep"
        )
    for node in to.waiting:
        box.terminal.warn(
            f"{node} has not joined yet, so it cannot open {name}; once it has: holdfast secret rotate {name} --keep"
        )
    if not to.operators:
        box.terminal.warn(
            "no operator has a recipient (age1…) in fleet.toml, so no operator can open it to seal it to other nodes"
        )


def document(name: str, path: str, to: Recipients, used_by: tuple[str, ...]) -> dict[str, object]:
    return {
        "name": name,
        "path": path,
        "operators": list(to.operators),
        "nodes": list(to.nodes),
        "waiting": list(to.waiting),
        "used_by": list(used_by),
    }
