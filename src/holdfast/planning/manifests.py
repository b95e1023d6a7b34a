"""Cut a resource table into one manifest per node. Pure and byte-deterministic (I-22); knows no product."""

from msgspec import UNSET

from holdfast.model import canonical
from holdfast.model.ids import FLEET
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry, Table


def compile_manifests(fleet_id: str, table: Table) -> dict[str, bytes]:
    """Node name → manifest bytes. A node learns of its own services, the policies that bind it, and storage."""
    settings = table.entries[FLEET].digest
    services: dict[str, dict[str, Entry]] = {}
    fleet_policies: dict[str, Entry] = {}
    service_policies: dict[str, dict[str, Entry]] = {}
    storage: dict[str, Entry] = {}
    for address, entry in table.entries.items():
        if address.startswith("service."):
            if entry.node is not UNSET:
                services.setdefault(entry.node, {})[address] = entry
        elif address.startswith("policy."):
            for target in entry.applies_to or ():
                scope = fleet_policies if target == FLEET else service_policies.setdefault(target, {})
                scope[address] = entry
        elif address.startswith("storage."):
            storage[address] = entry
    found: dict[str, bytes] = {}
    for address in sorted(table.entries):
        if not address.startswith("node."):
            continue
        node = address[5:]
        mine = services.get(node, {})
        policies = dict(fleet_policies)
        for service in service_policies.keys() & mine.keys():
            policies |= service_policies[service]
        manifest = NodeManifest(fleet_id, node, settings, table.entries[address].digest, mine, policies, storage)
        found[node] = canonical.encode(manifest)
    return found
