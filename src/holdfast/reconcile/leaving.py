"""Decide whether a service that left this node's manifest was removed or moved. Pure.

A removed service has a tombstone here and goes at once. A moved service without data serves until the hub reports that
its new node has it: without that report both run, which does no harm, and the service is never down.
"""

from collections.abc import Collection, Mapping

from holdfast.model.container import Guest
from holdfast.model.manifest import NodeManifest


def serves_on(manifest: NodeManifest, address: str, serving: Guest | None, released: Collection[str]) -> bool:
    """`serving` is what runs here of it; with data it would be a second writer, so it does not keep serving."""
    if serving is None or not serving.active or address in released:
        return False
    if address in manifest.services or address in manifest.standby or address in manifest.retired:
        return False  # wanted; or released by the hub; or removed
    return not _has_data(serving)


def with_data(guests: Mapping[str, Guest]) -> set[str]:
    """Of these services, the ones that write into a directory of their node while they are active."""
    return {name for name, guest in guests.items() if guest.active and _has_data(guest)}


def _has_data(guest: Guest) -> bool:
    return any(part.spec.mounts for part in guest.parts)
