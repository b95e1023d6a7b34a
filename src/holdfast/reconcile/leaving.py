"""A service that left this node's manifest: removed, or moved to another node? Pure.

What was removed has a tombstone here and goes at once. What was moved, and has no data, serves until the hub says that
its new home has it: without such a word both run, which harms nobody, and nobody is left without.
"""

from collections.abc import Collection

from holdfast.model.container import Guest
from holdfast.model.manifest import NodeManifest


def serves_on(manifest: NodeManifest, address: str, serving: Guest | None, released: Collection[str]) -> bool:
    """`serving` is what runs here of it; with data it would be a second writer, so that it never serves on."""
    if serving is None or not serving.active or address in released:
        return False
    if address in manifest.services or address in manifest.standby or address in manifest.retired:
        return False  # wanted; or ended by the hub's own word; or removed
    return not any(part.spec.mounts for part in serving.parts)
