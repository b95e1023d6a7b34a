"""Who is to be in a lab: the text of `--nodes`, read and checked. Pure."""

from msgspec import Struct

from holdfast.declared.later import of_value
from holdfast.errors import Invalid
from holdfast.model.ids import is_name

DEFAULT = "hub1:hub+worker,w1:worker,e1:edge"
ROLES = ("hub", "worker", "edge")
NODES_MAX = 200  # [fleet] nodes_max, and what fits into a /24
HUB = "hub"  # `lab kill hub`, `lab start hub`: the process, not a node


class Seat(Struct, frozen=True):
    """One node that was asked for."""

    name: str
    roles: tuple[str, ...]


def parse(text: str) -> tuple[Seat, ...]:
    seats = tuple(_seat(part.strip()) for part in text.split(",") if part.strip())
    if not seats or len(seats) > NODES_MAX:
        raise _wrong(f"a lab has 1 to {NODES_MAX} nodes, not {len(seats)}")
    names = [seat.name for seat in seats]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _wrong(f"two nodes are called {twice}")
    hubs = [seat.name for seat in seats if "hub" in seat.roles]
    if len(hubs) != 1:
        raise _wrong(f"exactly one node has the role hub, not {len(hubs)}")
    return seats


def _seat(text: str) -> Seat:
    name, colon, words = text.partition(":")
    roles = tuple(dict.fromkeys(word.strip() for word in words.split("+"))) if colon else ("worker",)
    if not is_name(name):
        raise _wrong(f"{name!r} is not a node's name")
    if name == HUB:
        raise _wrong("no node may be called hub: `lab kill hub` means the hub's process")
    later = next((row for role in roles if (row := of_value("Node", "roles", role))), None)
    if later is not None:
        raise _wrong(f"{text!r}: {later.reason}")
    unknown = next((role for role in roles if role not in ROLES), None)
    if unknown is not None:
        raise _wrong(f"{unknown!r} is not a role of {name}; roles are {', '.join(ROLES)}")
    return Seat(name, roles)


def _wrong(why: str) -> Invalid:
    return Invalid(why, remedy=f"write it like --nodes {DEFAULT}", code="invalid_argument")
