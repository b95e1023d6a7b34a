"""Volumes of the applied revision that nothing protects. Pure; reads services, no disk.

No release takes backups yet, so this is every volume. `protect` is the decision that the operator declared.
"""

from msgspec import UNSET, Struct

from holdfast.errors import Corrupt
from holdfast.model.applied import Applied
from holdfast.model.fleet import Service, Volume


class Unprotected(Struct, frozen=True):
    """One volume with one copy. `volume` is its name, or HOST:CONTAINER for a path of the host."""

    service: str
    component: str
    volume: str
    node: str
    protect: str


def unprotected(applied: Applied) -> tuple[Unprotected, ...]:
    """A service whose content is damaged is left out: that is a finding of the ledger."""
    found: list[Unprotected] = []
    for address, entry in sorted(applied.table.entries.items()):
        name = address.removeprefix("service.")
        if name == address:
            continue
        try:
            service = applied.service(name)
        except Corrupt:
            continue
        found += _of_service(name, service, "" if entry.node is UNSET else entry.node)
    return tuple(found)


def _of_service(name: str, service: Service, node: str) -> list[Unprotected]:
    return [
        Unprotected(
            service=name,
            component=component.name,
            volume=volume.name if isinstance(volume, Volume) else volume,
            node=node,
            protect=volume.protect if isinstance(volume, Volume) else "",
        )
        for component in service.components
        for volume in component.volumes
    ]
