"""An operation that the hub permits to some kinds of callers, and the usual sets of kinds."""

from msgspec import Struct

from holdfast.model.principal import KINDS, Kind


class Operation(Struct, frozen=True):
    name: str
    about: str
    kinds: frozenset[Kind]  # who may; every other kind is refused


EVERY_CALLER: frozenset[Kind] = frozenset(KINDS)
READERS: frozenset[Kind] = frozenset({"viewer", "operator"})
OPERATORS: frozenset[Kind] = frozenset({"operator"})
# Any key can be a founder's, but only while nothing is applied: what the first `apply` asks on its way, and all empty.
FOUNDERS: frozenset[Kind] = frozenset({"founder"})
NODES: frozenset[Kind] = frozenset({"node"})
JOINING: frozenset[Kind] = frozenset({"joining", "node"})  # a node that is known may enrol again (M-23)
