"""`holdfast secret list`: every secret with its recipients and its users."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.hub.show_finding import for_pasting
from holdfast.cli.secrets import purposes, secret_view
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.model import sealed
from holdfast.model.purpose import Purpose, wrapped
from holdfast.model.secret import users

DETAILS = """\
Reads the size and the recipients of each file. Nodes are identified by their keys; operators are anonymous in an age
file and are only counted. The services that may have a secret are named inside its seal: they are shown if your age
identity opens it, or if it was sealed on this machine. A secret that a node needs and cannot open, that another node
can open, or that a service uses and may not have, is marked; holdfast secret rotate NAME --keep corrects that.

examples:
  holdfast secret list
  holdfast secret list --json | jq '.secrets[] | select(.cannot_open != [])'
"""


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = secret_view.look(args, box)
    named = {name for names in users(view.fleet).values() for name in names}
    known = purposes.known(view.fleet.secrets, box)
    found = [_describe(view, name, known) for name in sorted(view.fleet.secrets.keys() | named)]
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"secrets": found}).decode())
        return 0
    if not found:
        box.terminal.remark("There are no secrets; create one with: holdfast secret set NAME")
    lines = tables.lines([_cells(one) for one in found], box.terminal)
    for one, line in zip(found, lines, strict=True):
        box.terminal.say(line)
        for remark in _remarks(one):
            box.terminal.say("    " + box.terminal.paint("yellow", for_pasting(remark, box.terminal)))
    return 0


def _describe(view: secret_view.View, name: str, known: Mapping[str, Purpose | None]) -> dict[str, Any]:
    """Stable keys. `sealed` False: a component names it, and there is no file. `bound` None: it was not opened here;
    False: it is of an older release, which wrote no addresses into it."""
    purpose = known.get(name)
    mine = purpose.addresses if purpose and (purpose.fleet, purpose.name) == (view.fleet_id, name) else ()
    content = view.fleet.secrets.get(name)
    seen = sealed.read(content) if content is not None else None
    tags = _tags(view)
    needed = secret_view.nodes(view, name, mine)
    can = sorted(tags[tag] for tag in seen.tags if tag in tags) if seen else []
    operators = sum(operator.recipient is not UNSET for operator in view.fleet.operators)
    return {
        "name": name,
        "sealed": seen is not None,
        "size_bytes": seen.size_bytes - len(wrapped(b"", purpose) if purpose else b"") if seen else None,
        "nodes": can,
        "operators": seen.anonymous if seen else 0,
        "operators_wanted": operators,
        "used_by": list(secret_view.users(view, name)),
        "cannot_open": [node for node in needed if node not in can],
        "not_needed": [node for node in can if node not in needed],
        "unknown": sorted(seen.tags - tags.keys()) if seen else [],
        "bound": purpose is not None if name in known else None,
        "addresses": list(mine) if name in known else None,
        "not_for": [one for one in secret_view.addresses(view, name) if one not in mine] if name in known else [],
    }


def _tags(view: secret_view.View) -> dict[str, str]:
    keys = {node: secret_view.key_of(view, node) for node in view.fleet.nodes}
    return {sealed.tag_of(key): node for node, key in keys.items() if key is not None}


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    used = f"used by {', '.join(one['used_by'])}" if one["used_by"] else "not used"
    if not one["sealed"]:
        return one["name"], "missing", "", used, ""
    people = counted(one["operators"], "operator")
    to = f"sealed to {', '.join((people, *one['nodes']))}"
    return one["name"], f"{one['size_bytes']} bytes", to, used, _goal(one)


def _goal(one: dict[str, Any]) -> str:
    if one["bound"]:
        return f"for {', '.join(one['addresses']) or 'no service'}"
    return "" if one["bound"] is None else "for no named service"


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
    if one["not_for"]:
        found.append(f"not sealed for {', '.join(one['not_for'])}")
    return [f"{text}: holdfast secret rotate {one['name']} --keep" for text in found]
