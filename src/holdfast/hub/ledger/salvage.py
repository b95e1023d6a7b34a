"""A hub that lost its ledger takes back what nodes hold, and puts a ledger together from it.

Nobody can be recognised without a ledger, so nobody is: a link is kept only if it continues the chain that begins with
the pinned fleet, a manifest only if a kept link names it, a content only if a kept manifest names it. All of it was
signed by operators; a stranger can hand in nothing else, and no more than that.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.ledger.rebuild import Incomplete, Rebuilt, Spare, rebuild
from holdfast.model import canonical, record, ssh_key
from holdfast.model.ids import is_name
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Approval, Link, RevisionRecord, Signer
from holdfast.model.revision import NO_HEAD, Head, Header, decode_header
from holdfast.model.salvage import LINKS_MAX, SalvageAnswer, SalvagePart
from holdfast.planning.header import check_header
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerStore, Moved, Reading, Transaction
from holdfast.trust.approval import by_key, verified_keys
from holdfast.trust.chain import Anchor, step, trust_of


class Salvage:
    """One for a running hub. Blocking: a part costs signatures and a write."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._at: Anchor | None = None  # end of the chain held, once it was walked
        self._last: Link | None = None

    @property
    def wanted(self) -> bool:
        """Pinned to a fleet, and without a revision."""
        return self._store.get(keys.HEAD) is None and self._store.get(keys.PIN) is not None

    def take(self, part: SalvagePart) -> SalvageAnswer:
        pinned = reading.pin(self._store)
        if pinned is None or self._store.get(keys.HEAD) is not None:
            return SalvageAnswer(False, NO_HEAD)
        if part.fleet != pinned.fleet:
            raise Invalid(
                "this hub is pinned to another fleet", remedy="check --trust of holdfast hub init", code="other_fleet"
            )
        if not is_name(part.node):
            raise Invalid("that is no node's name", remedy="hand over as the node that accepted it")
        at = self._anchored(pinned.fleet)
        at = self._take_links(at, part.links)
        header = self._last.header if self._last is not None else None
        if header is None:
            return SalvageAnswer(True, at.head)
        self._take_manifest(part, header)
        wanted = header.manifests.get(part.node)
        kept = self._store.get(keys.salvaged_manifest(part.node))
        lacks = wanted is not None and (kept is None or canonical.digest(kept.value) != wanted)
        named = _named(_manifest(kept.value, part.node)) if kept else set()
        self._take_blobs(part.blobs, named)
        return SalvageAnswer(True, at.head, lacks, tuple(sorted(named - self._store.has_blobs(named))))

    def _anchored(self, fleet: str) -> Anchor:
        if self._at is None:
            at = Anchor(fleet, NO_HEAD, None)
            for link in salvaged_links(self._store):
                at, self._last = step(at, link), link
            self._at = at
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
            self._store.commit(Transaction(expect={keys.HEAD: 0, **dict.fromkeys(put, 0)}, put=put))
            self._at, self._last = at, last
        return at

    def _take_manifest(self, part: SalvagePart, header: Header) -> None:
        """Only as the newest kept link has it: a newer chain may come later, then the node is asked again."""
        if part.manifest and canonical.digest(part.manifest) == header.manifests.get(part.node):
            key = keys.salvaged_manifest(part.node)
            self._store.commit(Transaction(expect={keys.HEAD: 0}, put={key: part.manifest}))

    def _take_blobs(self, blobs: Mapping[str, bytes], named: set[str]) -> None:
        good = {digest: content for digest, content in blobs.items() if digest in named}
        if good:
            self._store.commit(Transaction(expect={keys.HEAD: 0}, put={}, blobs=good))


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


# ---- putting it together --------------------------------------------------------------------------------------------


class Restored(Struct, frozen=True):
    head: Head
    nodes: int
    resources: int
    guessed: tuple[str, ...]


def newest(store: Reading) -> Link:
    """The end of the salvaged chain, walked from the pinned beginning."""
    pinned = reading.pin(store)
    if pinned is None or store.get(keys.HEAD) is not None:
        raise Conflict(
            "this ledger has revisions of its own" if pinned else "this ledger is pinned to no fleet",
            remedy="import ledger fills an empty one: holdfast hub init --trust FINGERPRINT --state-dir DIR",
            code="already_exists" if pinned else "ledger_missing",
        )
    links = salvaged_links(store)
    if not links:
        raise Incomplete(
            "no node handed over a chain that begins with revision 1 of this fleet",
            "start the hub (holdfast hub run) with its old key and address, and wait until nodes checked in; "
            "holdfast hub check shows what came",
        )
    at = Anchor(pinned.fleet, NO_HEAD, None)
    for link in links:
        at = step(at, link)
    return links[-1]


def restore(store: LedgerStore, high_water: HighWater, spares: Mapping[str, Spare], now_s: float) -> Restored:
    """All or nothing, in one step: revision records, head, contents; and what was salvaged goes."""
    link = newest(store)
    header = link.header
    found = rebuild(header, salvaged_manifests(store), reading.Contents(store), spares)
    manifests = check_header(header, found.table)
    links = salvaged_links(store)
    head = Head(header.number, canonical.digest(link.header_bytes))
    blobs = {**found.contents, **manifests, header.resources: found.table_bytes}
    put = {
        keys.HEAD: canonical.encode(head),
        keys.REBUILT: msgspec.json.encode(record.Rebuilt(head.number, now_s)),
    }
    for one in links:
        blobs[canonical.digest(one.header_bytes)] = one.header_bytes
        blobs[one.header.trust] = one.trust_bytes
        put[keys.revision(one.header.number)] = msgspec.json.encode(_record(one, now_s))
    spent = [entry.key for prefix in (keys.SALVAGED_LINKS, keys.SALVAGED_MANIFESTS) for entry in store.scan(prefix)]
    litter = sorted(set(store.blob_digests()) - blobs.keys())  # of manifests that a newer one replaced
    expect = {keys.HEAD: 0, **{key: 0 for key in put if key != keys.HEAD}}
    try:
        store.commit(Transaction(expect=expect, put=put, delete=spent, blobs=blobs, drop_blobs=litter))
    except Moved as trouble:
        raise Conflict(
            "the ledger got a revision meanwhile", remedy="holdfast hub check", code="stale_base"
        ) from trouble
    high_water.raise_to(head)
    return _restored(head, header, found)


def _restored(head: Head, header: Header, found: Rebuilt) -> Restored:
    return Restored(head, len(header.manifests), len(found.table.entries), found.guessed)


def _record(link: Link, now_s: float) -> RevisionRecord:
    """Who signed is known; what changed is not, as the tables before are gone."""
    operators = by_key(trust_of(link))
    signed = [key for key in verified_keys(link.header_bytes, link.signatures) if key in operators]
    signers = tuple(Signer(operators[key].name, _fingerprint(key), operators[key].grade) for key in signed)
    digest = canonical.digest(link.header_bytes)
    return RevisionRecord(link.header.number, digest, link.signatures, now_s, Approval("apply", signers), {})


def _fingerprint(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
