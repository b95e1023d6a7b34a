"""Seal a secret: what it is for, the keys that open it, its file, and what is said about it."""

import os

from msgspec import UNSET, Struct

from holdfast.cli.flags import Parser
from holdfast.cli.hub.show_finding import for_pasting
from holdfast.cli.secrets import purposes, secret_view
from holdfast.cli.secrets.secret_view import View
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model import canonical, sealed
from holdfast.model.ids import is_name_of
from holdfast.model.purpose import Purpose, resource_of, wrapped
from holdfast.planning import formats

KINDS = ("service", "alerts", "storage", "provides")  # of addresses that may have a secret


class Recipients(Struct, frozen=True):
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    waiting: tuple[str, ...]  # nodes that need it and have no key yet
    lines: tuple[str, ...]  # what it is sealed to


def declare_addresses(parser: Parser) -> None:
    parser.add_argument(
        "--for",
        dest="addresses",
        metavar="ADDRESS",
        action="append",
        help="an address that may have it, such as service.web, alerts.phone, storage.nas or provides.w1.postgres; can "
        "be repeated (default: those that use it)",
    )


def purpose(view: View, name: str, given: list[str] | None, before: Purpose | None = None) -> Purpose:
    """The addresses of --for; else those that use it, and of those before the ones that are not declared."""
    if given is not None:
        return Purpose(view.fleet_id, name, tuple(sorted({_checked_address(address) for address in given})))
    kept = {a for a in (before.addresses if before else ()) if not _is_declared(view, a)}
    return Purpose(view.fleet_id, name, tuple(sorted({*secret_view.addresses(view, name), *kept})))


def _is_declared(view: View, address: str) -> bool:
    return address.partition(".")[0] in KINDS and resource_of(address) in view.table.entries


def _checked_address(address: str) -> str:
    kind, _, name = address.partition(".")
    if kind not in KINDS or not is_name_of(kind, name):
        raise Invalid(
            f"{address[:60]!r} cannot have a secret: only services, targets and providers have secrets",
            remedy="write --for service.NAME, --for alerts.NAME, --for storage.NAME or --for provides.NODE.TYPE",
            code="usage",
        )
    return address


def recipients(view: View, goal: Purpose) -> Recipients:
    name = goal.name
    people = [(o.name, o.recipient) for o in view.fleet.operators if o.recipient is not UNSET]
    wanted = secret_view.nodes(view, name, goal.addresses)
    keys = {node: key for node in wanted if (key := secret_view.key_of(view, node)) is not None}
    lines = (*(str(recipient) for _, recipient in people), *keys.values())
    if not lines:
        raise Invalid(
            f"{name} has no recipient: no operator has one in fleet.toml, and no node that needs it has joined",
            remedy='add recipient = "age1…" to your [[operators]] in fleet.toml (age-keygen creates one)',
            code="no_recipients",
        )
    return Recipients(tuple(n for n, _ in people), tuple(keys), tuple(n for n in wanted if n not in keys), lines)


def write(view: View, goal: Purpose, value: bytes, to: Recipients, box: Toolbox) -> None:
    inside = box.keys.sealer().seal(wrapped(value, goal), to.lines)
    content = sealed.armoured(inside)
    if len(content) > sealed.FILE_BYTES_MAX:
        raise Invalid(
            f"sealed to {len(to.lines)} recipients, the secret is longer than {sealed.FILE_BYTES_MAX:,} bytes",
            remedy="make the value shorter",
        )
    path = secret_view.file_of(view, goal.name)
    box.disk.make_directory(os.path.dirname(path), 0o755)
    box.disk.replace(path, content, 0o644)
    purposes.note(canonical.digest(inside), goal, box)


def whom(goal: Purpose, to: Recipients) -> str:
    keys = (*(f"operator {name}" for name in to.operators), *(f"node {name}" for name in to.nodes))
    return f"{', '.join(keys)}, for {', '.join(goal.addresses) or 'no service yet'}"


def tell(view: View, goal: Purpose, to: Recipients, used_by: tuple[str, ...], box: Toolbox) -> None:
    """Remarks and warnings about the sealed secret, to stderr."""
    name = goal.name
    for node in to.nodes:
        if view.formats.get(node, formats.BOUND_SECRETS) < formats.BOUND_SECRETS:
            box.terminal.warn(f"{formats.too_old(node, name).message}; upgrade it before the next apply")
    if not used_by and not goal.addresses:
        text = (
            f"No component uses {name} yet, so only operators can open it. Use it in a service, then: "
            f"holdfast secret rotate {name} --keep"
        )
        box.terminal.remark(for_pasting(text, box.terminal))
    for node in to.waiting:
        text = f"{node} has not joined yet, so it cannot open {name}; once it has: holdfast secret rotate {name} --keep"
        box.terminal.warn(for_pasting(text, box.terminal))
    if not to.operators:
        box.terminal.warn(
            "no operator has a recipient (age1…) in fleet.toml, so no operator can open it to seal it to other nodes"
        )


def document(goal: Purpose, path: str, to: Recipients, used_by: tuple[str, ...]) -> dict[str, object]:
    return {
        "name": goal.name,
        "path": path,
        "addresses": list(goal.addresses),
        "operators": list(to.operators),
        "nodes": list(to.nodes),
        "waiting": list(to.waiting),
        "used_by": list(used_by),
    }
