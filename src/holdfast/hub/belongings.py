"""What of the ledger one node may fetch: its manifest and the contents that manifest names, nothing else (D8)."""

from holdfast.model import canonical
from holdfast.model.applied import Applied, content
from holdfast.model.manifest import NodeManifest

MANIFESTS_KEPT = 256


class Belongings:
    """Remembers what manifests name; a manifest is named by its digest, so nothing here grows old."""

    def __init__(self) -> None:
        self._named: dict[str, frozenset[str]] = {}

    def of(self, applied: Applied, node: str) -> frozenset[str]:
        digest = applied.header.manifests.get(node)
        if digest is None:
            return frozenset()
        found = self._named.get(digest)
        if found is None:
            found = named(content(applied.contents, digest, f"the manifest of {node}")) | {digest}
            if len(self._named) >= MANIFESTS_KEPT:
                self._named.clear()
            self._named[digest] = found
        return found


def named(manifest: bytes) -> frozenset[str]:
    found = canonical.decode(manifest, NodeManifest, "the manifest")
    entries = (found.own, *found.services.values(), *found.policies.values(), *found.storage.values())
    secrets = (secret for entry in entries for secret in entry.secrets.values())
    return frozenset({found.settings, *(entry.digest for entry in entries), *secrets})
