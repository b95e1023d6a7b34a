"""A hub that lost its ledger, or its newest revisions, stores what nodes have; restore.py builds a ledger from it.

Without a ledger the hub can identify no node. So it stores a link only if the link continues the chain from the pinned
fleet or from its own head, a manifest only if a stored link names it, a content only if a stored manifest names it.
Operators signed all of these: a stranger can submit nothing else.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from holdfast.errors import HoldfastError, Invalid
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.model import canonical, hub_generation
from holdfast.model.ids import is_name
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Header, decode_header
from holdfast.model.salvage import LINKS_MAX, SalvageAnswer, SalvagePart
from holdfast.ports.ledger_store import LedgerStore, Reading, Record, Transaction
from holdfast.trust import hub_generations
from holdfast.trust.chain import Anchor, step, trust_of


class Salvage:
    """One for a running hub. Blocking: a part costs signatures and a write."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._base: Record | None = None  # the head of this ledger when the chain held was walked
        self._at: Anchor | None = None  # end of the chain held
        self._last: Link | None = None

    def take(self, part: SalvagePart) -> SalvageAnswer:
        pinned, base = reading.pin(self._store), self._store.get(keys.HEAD)
        if pinned is None:
            return SalvageAnswer(False, NO_HEAD)
        if part.fleet != pinned.fleet:
            raise Invalid(
                "this hub is pinned to another fleet",
                remedy="check the fleet id that --trust named",
                code="other_fleet",
            )
        if not is_name(part.node):
            raise Invalid("that is no node's name", remedy="hand over as the node that accepted it")
        at = self._anchored(pinned.fleet, base)
        at = self._take_links(at, part.links)
        header = self._last.header if self._last is not None else None
        if header is None:
            return SalvageAnswer(True, at.head)
        self._take_generation(part, at)
        self._take_manifest(part, header)
        wanted = header.manifests.get(part.node)
        kept = self._manifest_of(part.node, wanted)
        lacks = wanted is not None and kept is None
        named = _named(_manifest(kept, part.node)) if kept is not None else set()
        self._take_blobs(part.blobs, named)
        return SalvageAnswer(True, at.head, lacks, tuple(sorted(named - self._store.has_blobs(named))))

    def _anchored(self, fleet: str, base: Record | None) -> Anchor:
        if self._at is None or self._base != base:
            at, self._last = start(self._store, fleet), None
            for link in salvaged_links(self._store):
                at, self._last = step(at, link), link
            self._at, self._base = at, base
        return self._at

    def _take_links(self, at: Anchor, links: Iterable[Link]) -> Anchor:
        """What is known or does not follow is passed over; a forged link spoils its part."""
        put: dict[str, bytes] = {}
        last = self._last
        for link in tuple(links)[:LINKS_MAX]:
            further = _followed(at, link)
            if further is not None:
                at, last = further, link
                put[keys.salvaged_link(at.head.number)] = msgspec.json.encode(link)
        if put:
            self._commit(put, fresh=True)
            self._at, self._last = at, last
        return at

    def _commit(self, put: Mapping[str, bytes], fresh: bool = False, blobs: Mapping[str, bytes] = {}) -> None:
        """Only while the ledger has the head that these follow."""
        expect = {keys.HEAD: self._base.modified if self._base is not None else 0}
        more = dict.fromkeys(put, 0) if fresh else {}
        self._store.commit(Transaction(expect={**expect, **more}, put=put, blobs=blobs))

    def _take_generation(self, part: SalvagePart, at: Anchor) -> None:
        """Of the hub that the node follows: an empty ledger becomes that one again; one with a head has its own."""
        if part.generation is None or self._base is not None or at.trust is None:
            return
        kept = self._store.get(keys.SALVAGED_GENERATION)
        with suppress(HoldfastError):
            said = hub_generations.verify(part.generation, at.fleet, at.trust)
            known = hub_generation.restored(kept.value, "the ledger") if kept is not None else None
            if known is None or hub_generation.decode(known.generation).rank < said.rank:
                self._commit({keys.SALVAGED_GENERATION: hub_generation.stored(part.generation)})

    def _manifest_of(self, node: str, digest: str | None) -> bytes | None:
        """As the newest kept link has it: sent by the node, or in this ledger since an older revision."""
        kept = self._store.get(keys.salvaged_manifest(node))
        if kept is not None and canonical.digest(kept.value) == digest:
            return kept.value
        return self._store.blob(digest) if digest is not None else None

    def _take_manifest(self, part: SalvagePart, header: Header) -> None:
        """Only as the newest kept link has it: a newer chain may come later, then the node is asked again."""
        if part.manifest and canonical.digest(part.manifest) == header.manifests.get(part.node):
            key = keys.salvaged_manifest(part.node)
            self._commit({key: part.manifest})

    def _take_blobs(self, blobs: Mapping[str, bytes], named: set[str]) -> None:
        good = {digest: content for digest, content in blobs.items() if digest in named}
        if good:
            self._commit({}, blobs=good)


def start(store: Reading, fleet: str) -> Anchor:
    """Where the chain that nodes hand over begins: at the head of this ledger, or with the fleet."""
    head = reading.head_of(store)
    if head == NO_HEAD:
        return Anchor(fleet, NO_HEAD, None)
    return Anchor(fleet, head, trust_of(reading.link_of(store, head.number)))


def salvaged_links(store: Reading) -> list[Link]:
    return [msgspec.json.decode(record.value, type=Link) for record in store.scan(keys.SALVAGED_LINKS)]


def salvaged_manifests(store: Reading) -> dict[str, bytes]:
    start = len(keys.SALVAGED_MANIFESTS)
    return {record.key[start:]: record.value for record in store.scan(keys.SALVAGED_MANIFESTS)}


def _followed(at: Anchor, link: Link) -> Anchor | None:
    """One link further; None if it lies elsewhere in the chain. What is forged is the sender's fault, not damage."""
    try:
        return step(at, link) if decode_header(link.header_bytes).number == at.head.number + 1 else None
    except HoldfastError as trouble:
        raise Invalid(
            f"this link is not kept: {trouble.message}", remedy="hand over what was accepted", code="salvage_refused"
        ) from trouble


def _manifest(content: bytes, node: str) -> NodeManifest:
    return canonical.decode(content, NodeManifest, f"the manifest of {node}")


def _named(manifest: NodeManifest) -> set[str]:
    held = (manifest.own, *manifest.held.values())
    return {manifest.settings, *(digest for entry in held for digest in entry.needs)}
