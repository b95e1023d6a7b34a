"""Make a plan from what is declared, applied and observed. Pure and deterministic (I-22): same input, same bytes."""

from collections.abc import Mapping, Set

from msgspec import Struct

from holdfast.errors import Conflict, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied, head_of, table_of
from holdfast.model.fleet import Fleet
from holdfast.model.nearest import hint
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import NodeIdentity, Table
from holdfast.planning import pairs, secrets, warnings
from holdfast.planning.contents import layered
from holdfast.planning.kinds.every import documents
from holdfast.planning.step import between
from holdfast.planning.table import Drafted, draft, limited


class Inputs(Struct, frozen=True):
    """The inputs of planning besides the directory and the ledger."""

    seen: Mapping[str, NodeObservation] = {}
    image_digests: Mapping[str, str] = {}  # tag → digest, from registries
    identities: Mapping[str, NodeIdentity] = {}  # node → the key it proved, and its issuing certificate
    revoked: Set[str] = frozenset()  # revoked key lines
    addresses: Mapping[str, str] = {}  # node → its address, from a report that its key signed
    uses: secrets.Uses = secrets.Uses()  # of secrets
    only: str | None = None  # plan this one address, leave the rest as applied


def plan(fleet: Fleet, applied: Applied | None, inputs: Inputs = Inputs()) -> Plan:  # noqa: B008 (frozen value)
    texts = documents(fleet)
    drafted = drafted_table(fleet, texts, applied, inputs)
    table = drafted.table
    if inputs.only is not None:
        if inputs.only not in table.entries:
            raise Invalid(
                f"{inputs.only} is not declared in this fleet directory",
                remedy=declared_instead(inputs.only, table),
                code="not_found",
            )
        table = limited(table_of(applied), table, inputs.only)
        _require_edges(table, inputs.only)
    pairs.require_unused(table, table_of(applied))
    fresh = {entry.digest: texts[address] for address, entry in drafted.table.entries.items()}
    fresh |= {canonical.digest(sealed): sealed for sealed in fleet.secrets.values()}
    held = layered(fresh, applied.contents if applied else {})
    found = (
        *warnings.of_services(fleet, table),
        *warnings.unknown_consumers(fleet),
        *warnings.renamed_zone(fleet, applied),
        *warnings.unreached(table, inputs.only),
        *secrets.require_readable(table, held, inputs.only),
        *secrets.unused(fleet),
    )
    secrets.require_purpose(table, applied, inputs.uses, inputs.only)
    return between(table, applied, fresh, drafted.placed, found, inputs.uses.formats)


def drafted_table(fleet: Fleet, texts: Mapping[str, bytes], applied: Applied | None, inputs: Inputs) -> Drafted:
    number = head_of(applied).number + 1
    known = (inputs.seen, inputs.image_digests, number, inputs.identities, inputs.revoked, inputs.addresses)
    return draft(fleet, texts, table_of(applied), *known)


def _require_edges(table: Table, address: str) -> None:
    """A deploy of one service does not add an edge that the applied fleet does not have."""
    for hostname, route in table.entries[address].public.items():
        edge = table.entries.get(f"node.{route.edge}")
        if route.edge and (edge is None or edge.proxy != "public"):
            raise Conflict(
                f"{hostname} of {address} needs the edge {route.edge}, which is not applied as an edge yet",
                remedy="holdfast apply",
                code="edge_not_applied",
            )


def declared_instead(address: str, table: Table) -> str:
    """A remedy: the nearest declared service, and all of them."""
    known = sorted(known for known in table.entries if known.startswith("service."))
    near = hint(address, known) or hint(f"service.{address}", known)
    return f"{near}declared services are: {', '.join(known[:20]) or 'none'}"
