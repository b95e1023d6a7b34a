"""Declared resources as the documents a revision refers to: address → canonical bytes. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical, trust
from holdfast.model.applied import content
from holdfast.model.fleet import Fleet, FleetDocument, Service
from holdfast.model.ids import FLEET, TRUST
from holdfast.model.revision import Table


def removals_max(contents: Mapping[str, bytes], table: Table) -> int:
    """How many resources the applied fleet lets go at a time."""
    found = content(contents, table.entries[FLEET].digest, FLEET)
    return msgspec.json.decode(found, type=FleetDocument).settings.removals_max


def nameless(service: Service) -> Service:
    """The address is the name; a `name` key that repeats it must not make a second spelling."""
    return service if service.name is UNSET else replace(service, name=UNSET)


def documents(fleet: Fleet) -> dict[str, bytes]:
    """Every declared resource, sorted by address so that the result does not depend on file order (I-22)."""
    encode = canonical.encode
    found: dict[str, bytes] = {
        FLEET: encode(
            FleetDocument(fleet.settings, fleet.backups, fleet.timeouts, fleet.acme, fleet.dns, fleet.overlay)
        ),
        TRUST: encode(trust.of(fleet.operators, fleet.thresholds)),
    }
    for name, alert in fleet.alerts.items():
        found["alert." + name] = encode(alert)
    for name, node in fleet.nodes.items():
        found["node." + name] = encode(node)
    for name, policy in fleet.policies.items():
        found["policy." + name] = policy.text
    for name, service in fleet.services.items():
        found["service." + name] = encode(nameless(service))
    for name, target in fleet.storage.items():
        found["storage." + name] = encode(target)
    return dict(sorted(found.items()))
