"""Cut a resource table into one manifest per node. Pure and byte-deterministic (I-22); knows no product."""

from msgspec import UNSET

from holdfast.model import canonical
from holdfast.model.ids import FLEET
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry, Table, Tombstone


def compile_manifests(fleet_id: str, table: Table) -> dict[str, bytes]:
    """Node name → manifest bytes. A node learns of its own services, those it stands by for, the policies that bind
    them, and storage.

    Alerts are in nobody's manifest: their URLs are often secrets, and only the hub sends.
    """
    settings = table.entries[FLEET].digest
    services: dict[str, dict[str, Entry]] = {}
    standby: dict[str, dict[str, Entry]] = {}
    fleet_policies: dict[str, Entry] = {}
    service_policies: dict[str, dict[str, Entry]] = {}
    storage: dict[str, Entry] = {}
    for address, entry in table.entries.items():
        if address.startswith("service."):
            if entry.node is not UNSET:
                services.setdefault(entry.node, {})[address] = entry
            for other in entry.failover:
                if other != entry.node:
                    standby.setdefault(other, {})[address] = entry
        elif address.startswith("policy."):
            for target in entry.applies_to or ():
                scope = fleet_policies if target == FLEET else service_policies.setdefault(target, {})
                scope[address] = entry
        elif address.startswith("storage."):
            storage[address] = entry
    everywhere, retired = _retired(table)
    found: dict[str, bytes] = {}
    for address in sorted(table.entries):
        if not address.startswith("node."):
            continue
        node = address[5:]
        mine, spare = services.get(node, {}), standby.get(node, {})
        policies = dict(fleet_policies)
        for service in service_policies.keys() & (mine.keys() | spare.keys()):
            policies |= service_policies[service]
        gone = everywhere | retired[node] if node in retired else everywhere
        own = table.entries[address]
        manifest = NodeManifest(fleet_id, node, settings, own, mine, policies, storage, spare, gone)
        found[node] = canonical.encode(manifest)
    return found


def _retired(table: Table) -> tuple[dict[str, Tombstone], dict[str, dict[str, Tombstone]]]:
    """Each tombstone goes to the node it was removed from. What lay nowhere, or on a node that left too, goes to all:
    a lost ledger is rebuilt from manifests, and somebody must remember it."""
    everywhere: dict[str, Tombstone] = {}
    retired: dict[str, dict[str, Tombstone]] = {}
    for address, stone in table.tombstones.items():
        if stone.node is UNSET or f"node.{stone.node}" not in table.entries:
            everywhere[address] = stone
        else:
            retired.setdefault(stone.node, {})[address] = stone
    return everywhere, retired
