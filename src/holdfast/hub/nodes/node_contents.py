"""What of the ledger one node may fetch: its manifests and the contents they name, nothing else (D8).

Its manifests of earlier revisions too: a node that slept judges every revision it missed by that one's signatures, and
one that lost its state starts with the revision that was vouched for, however long ago that was (X14).
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link

REVISIONS_BACK = 100  # as far as an agent asks back
MANIFESTS_KEPT = 1024
STARTED_OVER_MAX = 8  # nodes whose old manifests are kept in memory
PAGE = 100

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
        self._old: dict[str, tuple[int, set[str]]] = {}  # node → the revision it was searched up to, its manifests
        self._asked: dict[str, list[str]] = {}  # node → old manifests that it fetched lately
        self._turn = threading.Lock()  # asked by several threads
        self._search = threading.Lock()  # a search takes long, and no other node waits for it

    def has(self, applied: Applied, node: str, digest: str) -> bool:
        with self._turn:
            self._follow(applied)
            mine = self._of(applied, node)
            if any(digest == manifest or digest in self._contents(manifest) for manifest in mine):
                return True
        return self._is_old(applied.head.number - REVISIONS_BACK, node, digest)

    def _is_old(self, last: int, node: str, digest: str) -> bool:
        """Of a manifest of an older revision, or of one that the node fetched just before."""
        if last < 1:
            return False
        with self._search:
            asked = self._asked.get(node, [])
            with self._turn:
                if any(digest in self._contents(manifest) for manifest in asked):
                    return True
            if digest not in self._old_manifests(node, last):
                return False
            if digest not in asked:
                self._asked[node] = [*asked, digest][-REVISIONS_BACK:]
            return True

    def _old_manifests(self, node: str, last: int) -> set[str]:
        until, found = self._old.pop(node, (0, set()))
        for first in range(until + 1, last + 1, PAGE):
            for link in self._links(first, min(first + PAGE - 1, last)):
                if (manifest := link.header.manifests.get(node)) is not None:
                    found.add(manifest)
        self._old[node] = (max(until, last), found)
        while len(self._old) > STARTED_OVER_MAX:
            gone = next(iter(self._old))
            del self._old[gone]
            self._asked.pop(gone, None)
        return found

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
