"""What of the ledger one node may fetch: its manifests and the contents they name, nothing else (D8).

Its manifests of earlier revisions too: a node that slept judges every revision it missed by that one's signatures.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link

REVISIONS_BACK = 100  # as far as an agent asks back
MANIFESTS_KEPT = 1024

Links = Callable[[int, int], Sequence[Link]]
Blob = Callable[[str], bytes | None]


class Belongings:
    """Remembers what manifests name; a manifest is named by its digest, so nothing here grows old."""

    def __init__(self, links: Links, blob: Blob) -> None:
        self._links = links
        self._blob = blob
        self._named: dict[str, frozenset[str]] = {}
        self._manifests: dict[str, dict[str, int]] = {}  # node → its manifests, newest last → revision
        self._read = 0  # the newest revision whose header was looked at
        self._turn = threading.Lock()  # asked by several threads

    def has(self, applied: Applied, node: str, digest: str) -> bool:
        with self._turn:
            self._follow(applied)
            mine = self._of(applied, node)
            return any(digest == manifest or digest in self._contents(manifest) for manifest in mine)

    def _of(self, applied: Applied, node: str) -> Iterator[str]:
        """Newest first; those that are too old by now are forgotten on the way."""
        mine = self._manifests.get(node, {})
        for manifest in [m for m, number in mine.items() if number <= applied.head.number - REVISIONS_BACK]:
            if manifest != applied.header.manifests.get(node):
                del mine[manifest]
        yield from reversed(list(mine))

    def _follow(self, applied: Applied) -> None:
        head = applied.head.number
        if self._read >= head:
            return
        for link in self._links(max(self._read + 1, head - REVISIONS_BACK + 1, 1), head):
            header = link.header
            for node, manifest in header.manifests.items():
                mine = self._manifests.setdefault(node, {})
                mine.pop(manifest, None)
                mine[manifest] = header.number
        self._read = head

    def _contents(self, manifest: str) -> frozenset[str]:
        found = self._named.get(manifest)
        if found is None:
            content = self._blob(manifest)
            found = named(content) if content is not None and canonical.digest(content) == manifest else frozenset()
            if len(self._named) >= MANIFESTS_KEPT:
                self._named.clear()
            self._named[manifest] = found
        return found


def named(manifest: bytes) -> frozenset[str]:
    found = canonical.decode(manifest, NodeManifest, "the manifest")
    entries = (found.own, *found.held.values())
    return frozenset({found.settings, *(digest for entry in entries for digest in entry.needs)})
