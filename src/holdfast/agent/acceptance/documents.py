"""Read the documents of the manifest in force: what this node is, and what every node may know."""

from collections.abc import Mapping

import msgspec

from holdfast.agent.keeper import Revision
from holdfast.model.fleet import FleetDocument, Node, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Tombstone
from holdfast.ports.acceptance import Acceptance

Own = tuple[Node, Settings]


class Documents:
    """Each pair is decoded once: every report asks for it."""

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self._read: tuple[tuple[str, str], Node, FleetDocument] | None = None

    def own(self, manifest: NodeManifest) -> Own | None:
        """None if a document cannot be read from the disk."""
        found = self._documents(manifest)
        return (found[0], found[1].settings) if found is not None else None

    def revision(self, number: int, manifest: NodeManifest, stones: Mapping[str, Tombstone]) -> Revision | None:
        found = self._documents(manifest)
        if found is None:
            return None
        return Revision(number, manifest, found[1], found[0], {**stones, **manifest.retired})

    def _documents(self, manifest: NodeManifest) -> tuple[Node, FleetDocument] | None:
        digests = manifest.own.digest, manifest.settings
        if self._read is None or self._read[0] != digests:
            node, document = self._acceptance.blob(digests[0]), self._acceptance.blob(digests[1])
            if node is None or document is None:
                return None
            decoded = msgspec.json.decode(document, type=FleetDocument)
            self._read = (digests, msgspec.json.decode(node, type=Node), decoded)
        return self._read[1], self._read[2]
