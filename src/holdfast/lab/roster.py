"""Parse and check the text of `--nodes`. Pure."""

from msgspec import Struct

from holdfast.declared.later import of_value
from holdfast.errors import Invalid
from holdfast.model.ids import is_name

DEFAULT = "hub1:hub+worker,w1:worker,e1:edge"
ROLES = ("hub", "worker", "edge", "provider")
NODES_MAX = 200  # the default of [fleet] nodes_max; also fits into a /24
HUB = "hub"  # in `lab kill hub` and `lab start hub`: the process, not a node


class Seat(Struct, frozen=True):
    """One requested node."""

    name: str
    roles: tuple[str, ...]


def parse(text: str) -> tuple[Seat, ...]:
    seats = tuple(_seat(part.strip()) for part in text.split(",") if part.strip())
    if not seats or len(seats) > NODES_MAX:
        raise _wrong(f"a lab has 1 to {NODES_MAX} nodes, not {len(seats)}")
    names = [seat.name for seat in seats]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _wrong(f"two nodes have the name {twice}")
    hubs = [seat.name for seat in seats if "hub" in seat.roles]
    if len(hubs) != 1:
        raise _wrong(f"a lab needs exactly one node with the role hub, not {len(hubs)}")
    return seats


def _seat(text: str) -> Seat:
    name, colon, words = text.partition(":")
    roles = tuple(dict.fromkeys(word.strip() for word in words.split("+"))) if colon else ("worker",)
    if not is_name(name):
        raise _wrong(f"{name!r} is not a valid node name")
    if name == HUB:
        raise _wrong("a node cannot have the name hub: `lab kill hub` means the hub's process")
    later = next((row for role in roles if (row := of_value("Node", "roles", role))), None)
    if later is not None:
        raise _wrong(f"{text!r}: {later.reason}")
    unknown = next((role for role in roles if role not in ROLES), None)
    if unknown is not None:
        raise _wrong(f"{unknown!r} is not a valid role for {name}; roles are {', '.join(ROLES)}")
    return Seat(name, roles)


def _wrong(why: str) -> Invalid:
    return Invalid(why, remedy=f"write it like --nodes {DEFAULT}", code="invalid_argument")
