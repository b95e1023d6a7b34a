"""`holdfast secret list`: every secret with its recipients and its users."""

from argparse import Namespace
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.secrets import secret_view
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.model import sealed
from holdfast.model.secret import names_of

DETAILS = """\
Reads the size and the recipients of each file; opens none. Nodes are identified by their keys; operators are anonymous
in an age file and are only counted. A secret that a node needs and cannot open, or that another node can open, is
marked; holdfast secret rotate NAME --keep corrects that.

examples:
  holdfast secret list
  holdfast secret list --json | jq '.secrets[] | select(.cannot_open != [])'
"""


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = secret_view.look(args, box)
    named = {name for service in view.fleet.services.values() for name in names_of(service)}
    found = [_describe(view, name) for name in sorted(view.fleet.secrets.keys() | named)]
    if args.json:
        box.terminal.say(msgspec.json.encode({"secrets": found}).decode())
        return 0
    if not found:
        box.terminal.remark("There are no secrets; create one with: holdfast secret set NAME")
    lines = tables.lines([_cells(one) for one in found], box.terminal)
    for one, line in zip(found, lines, strict=True):
        box.terminal.say(line)
        for remark in _remarks(one):
            box.terminal.say("    " + box.terminal.paint("yellow", remark))
    return 0


def _describe(view: secret_view.View, name: str) -> dict[str, Any]:
    """Stable keys. `sealed` False: a component names it, and there is no file."""
    content = view.fleet.secrets.get(name)
    seen = sealed.read(content) if content is not None else None
    tags = _tags(view)
    needed = secret_view.nodes(view, name)
    can = sorted(tags[tag] for tag in seen.tags if tag in tags) if seen else []
    operators = sum(operator.recipient is not UNSET for operator in view.fleet.operators)
    return {
        "name": name,
        "sealed": seen is not None,
        "size_bytes": seen.size_bytes if seen else None,
        "nodes": can,
        "operators": seen.anonymous if seen else 0,
        "operators_wanted": operators,
        "used_by": list(secret_view.users(view, name)),
        "cannot_open": [node for node in needed if node not in can],
        "not_needed": [node for node in can if node not in needed],
        "unknown": sorted(seen.tags - tags.keys()) if seen else [],
    }


def _tags(view: secret_view.View) -> dict[str, str]:
    keys = {node: secret_view.key_of(view, node) for node in view.fleet.nodes}
    return {sealed.tag_of(key): node for node, key in keys.items() if key is not None}


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    used = f"used by {', '.join(one['used_by'])}" if one["used_by"] else "not used"
    if not one["sealed"]:
        return one["name"], "missing", "", used
    people = counted(one["operators"], "operator")
    return one["name"], f"{one['size_bytes']} bytes", f"sealed to {', '.join((people, *one['nodes']))}", used


def _remarks(one: dict[str, Any]) -> list[str]:
    if not one["sealed"]:
        return [f"create it: holdfast secret set {one['name']}"]
    found = []
    if one["cannot_open"]:
        found.append(f"{', '.join(one['cannot_open'])} needs it and cannot open it")
    if one["not_needed"] or one["unknown"]:
        others = [*one["not_needed"], *(f"an unknown key {tag}" for tag in one["unknown"])]
        found.append(f"{', '.join(others)} can open it and does not need it")
    if one["operators"] != one["operators_wanted"]:
        people, wanted = counted(one["operators"], "operator"), counted(one["operators_wanted"], "recipient")
        found.append(f"sealed to {people}, and fleet.toml has {wanted}")
    return [f"{text}: holdfast secret rotate {one['name']} --keep" for text in found]
