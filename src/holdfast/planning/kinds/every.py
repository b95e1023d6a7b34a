"""Every resource kind, in one tuple. A new kind adds its module and one line here."""

from collections.abc import Mapping

from holdfast.model.fleet import Fleet
from holdfast.model.ids import kind_of
from holdfast.model.revision import Table
from holdfast.planning.kinds import alert, fleet, node, policy, provides, service, storage, trust
from holdfast.planning.kinds.kind import EVERY_NODE, Kind

KINDS: tuple[Kind, ...] = (
    fleet.KIND,
    trust.KIND,
    node.KIND,
    service.KIND,
    policy.KIND,
    storage.KIND,
    alert.KIND,
    provides.KIND,
)
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}


def kind_at(address: str) -> Kind:
    return BY_NAME[kind_of(address)]


def holders(address: str, table: Table) -> frozenset[str] | None:
    """The nodes whose manifest has this resource; None: all nodes."""
    nodes = frozenset(node for node, _ in kind_at(address).project(address, table.entries[address], table))
    return None if EVERY_NODE in nodes else nodes


def documents(declared: Fleet) -> dict[str, bytes]:
    """Every declared resource, sorted by address so that the result does not depend on file order (I-22)."""
    found = {address: text for kind in KINDS for address, text in kind.documents(declared).items()}
    return dict(sorted(found.items()))
