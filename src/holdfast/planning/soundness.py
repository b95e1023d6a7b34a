"""Check a whole resource table: the hub refuses what the command line would never write. Pure."""

from collections.abc import Mapping, Set

from msgspec import UNSET

from holdfast.model.fleet import FleetDocument, Node, Service
from holdfast.model.ids import parse_address
from holdfast.model.revision import Entry, Table
from holdfast.planning import infrastructure
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import Proposal, check_own_fields, read
from holdfast.planning.kinds.node import check_address
from holdfast.planning.kinds.service_check import check_reach
from holdfast.planning.unsound import Unsound


def check_entry(proposal: Proposal) -> None:
    """One created or changed address."""
    parse_address(proposal.address)
    kind = kind_at(proposal.address)
    check_own_fields(proposal.address, proposal.entry, kind.view)
    kind.check(proposal)


def check_table(table: Table) -> None:
    """What must hold between resources, also between unchanged ones."""
    owners: dict[str, str] = {}
    edges = {address[5:] for address, entry in table.entries.items() if entry.proxy == "public"}
    for address, entry in table.entries.items():
        if entry.identity is not UNSET and owners.setdefault(entry.identity.key, address) != address:
            raise Unsound(f"{address} and {owners[entry.identity.key]} have the same key")
        if entry.address and owners.setdefault(entry.address, address) != address:
            raise Unsound(f"{address} and {owners[entry.address]} both have the address {entry.address}")
        if address.startswith("alert.") and any(one not in table.entries for one in entry.applies_to or ()):
            raise Unsound(f"{address} is to be sent by a node that is not in the table")
        if address.startswith("provides.") and f"node.{entry.node}" not in table.entries:
            raise Unsound(f"{address} is of a node that is not in the table")
        if not address.startswith("service."):
            continue
        if entry.node is UNSET or f"node.{entry.node}" not in table.entries:
            raise Unsound(f"{address} is placed on a node that is not in the table")
        if any(f"node.{name}" not in table.entries for name in entry.failover):
            raise Unsound(f"{address} fails over to a node that is not in the table")
        for hostname in (*entry.hostnames, *entry.names):
            if owners.setdefault(hostname, address) != address:
                raise Unsound(f"{address} and {owners[hostname]} both claim {hostname}")
        if entry.public:
            _check_edges(address, entry, edges)


def check_settings(before: Table, after: Table, contents: Mapping[str, bytes], fleet: FleetDocument) -> None:
    """Changed settings change names, domains and networks also of resources that did not change."""
    for _, unknown in infrastructure.unknown_servers(fleet.dns, after.of_kind("node").keys()):
        raise Unsound(f"[dns] names {unknown}, which is not a node of the table")
    for address, entry in after.entries.items():
        if before.entries.get(address) != entry:
            continue  # check_entry checks it
        if address.startswith("node."):
            check_address(address, read(contents, entry, address, Node), entry, fleet)
        elif address.startswith("service."):
            check_reach(address, entry, read(contents, entry, address, Service), fleet.settings)


def _check_edges(address: str, entry: Entry, edges: Set[str]) -> None:
    """A fleet without edges serves no public hostname; in a fleet with edges each hostname has one."""
    for hostname, route in entry.public.items():
        if route.edge not in edges and (route.edge or edges):
            raise Unsound(f"{hostname} of {address} is assigned to {route.edge or 'no node'}, which is not an edge")
