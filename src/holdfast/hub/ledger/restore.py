"""Build a ledger from what nodes sent (salvage.py), or fill it up, in one transaction or not at all."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.salvage import salvaged_links, salvaged_manifests, start
from holdfast.ledger import keys
from holdfast.ledger.rebuild import Incomplete, Rebuilt, Spare, rebuild
from holdfast.model import canonical, record, ssh_key
from holdfast.model.record import Approval, Link, RevisionRecord, Signer
from holdfast.model.revision import NO_HEAD, Head, Header, decode_table
from holdfast.planning.header import check_header
from holdfast.planning.kinds.every import holders
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerStore, Moved, Reading, Transaction
from holdfast.trust.approval import by_key, verified_keys
from holdfast.trust.chain import step, trust_of


class Restored(Struct, frozen=True):
    head: Head
    nodes: int
    resources: int
    guessed: tuple[str, ...]
    before: Head = NO_HEAD  # the head that this ledger had


def newest(store: Reading) -> Link:
    """The end of the salvaged chain, walked from the pinned beginning or from the head of this ledger."""
    pinned = reading.pin(store)
    if pinned is None:
        raise Conflict(
            "this ledger is pinned to no fleet",
            remedy="import ledger fills an empty one: holdfast hub init --trust FINGERPRINT --state-dir DIR",
            code="ledger_missing",
        )
    links = salvaged_links(store)
    if not links and store.get(keys.HEAD) is not None:
        raise Conflict(
            f"no node has sent a newer revision than {reading.head_of(store).number}, which this ledger has",
            remedy="`holdfast status` shows if a node has a newer one; nodes send theirs when they check in: run the "
            "same command again then",
            code="already_exists",
        )
    if not links:
        raise Incomplete(
            "no node sent a chain that begins with revision 1 of this fleet",
            "start the hub (`holdfast hub run`) with its old key and address, and wait until nodes checked in; "
            "`holdfast hub check` shows what arrived",
        )
    at = start(store, pinned.fleet)
    for link in links:
        at = step(at, link)
    return links[-1]


def restore(store: LedgerStore, high_water: HighWater, spares: Mapping[str, Spare], now_s: float) -> Restored:
    """All or nothing, in one step: revision records, head, contents; and what was salvaged goes."""
    link = newest(store)
    header, base = link.header, store.get(keys.HEAD)
    before = reading.head_of(store)
    found = _rebuilt(store, header, spares)
    manifests = check_header(header, found.table)
    links = salvaged_links(store)
    head = Head(header.number, canonical.digest(link.header_bytes))
    blobs = {**found.contents, **manifests, header.resources: found.table_bytes}
    put, expect = {keys.HEAD: canonical.encode(head)}, {keys.HEAD: base.modified if base is not None else 0}
    if len(links) > 1 or base is None:  # tables of revisions in between are in no node
        put[keys.REBUILT] = msgspec.json.encode(record.Rebuilt(head.number, now_s))
    if (generation := store.get(keys.SALVAGED_GENERATION)) is not None:
        put[keys.GENERATION] = generation.value
    for one in links:
        blobs[canonical.digest(one.header_bytes)] = one.header_bytes
        blobs[one.header.trust] = one.trust_bytes
        put[keys.revision(one.header.number)] = msgspec.json.encode(_record(one, now_s))
        expect[keys.revision(one.header.number)] = 0
    prefixes = (keys.SALVAGED_LINKS, keys.SALVAGED_MANIFESTS, keys.SALVAGED_GENERATION)
    spent = [entry.key for prefix in prefixes for entry in store.scan(prefix)]
    litter = sorted(set(store.blob_digests()) - blobs.keys()) if base is None else ()  # of manifests that were replaced
    try:
        store.commit(Transaction(expect=expect, put=put, delete=spent, blobs=blobs, drop_blobs=litter))
    except Moved as trouble:
        raise Conflict(
            "the ledger got a revision meanwhile", remedy="holdfast hub check", code="stale_base"
        ) from trouble
    high_water.raise_to(head)
    return Restored(head, len(header.manifests), len(found.table.entries), found.guessed, before)


def _rebuilt(store: Reading, header: Header, spares: Mapping[str, Spare]) -> Rebuilt:
    """What did not change since the head of this ledger is in it: manifests, and entries that no node holds. The
    directory may be newer or older than those, so both are tried."""
    contents, handed = reading.Contents(store), salvaged_manifests(store)
    known = {node: text for node, digest in header.manifests.items() if (text := contents.get(digest)) is not None}
    own = _own_spares(store)
    try:
        return rebuild(header, {**known, **handed}, contents, {**own, **spares})
    except Incomplete:
        if not own:
            raise
        return rebuild(header, {**known, **handed}, contents, {**spares, **own})


def _own_spares(store: Reading) -> dict[str, Spare]:
    head = reading.head_of(store)
    if head == NO_HEAD:
        return {}
    contents = reading.Contents(store)
    table = decode_table(contents[reading.link_of(store, head.number).header.resources])
    return {
        address: Spare(entry, contents.get(entry.digest, b""), holders(address, table))
        for address, entry in table.entries.items()
    }


def _record(link: Link, now_s: float) -> RevisionRecord:
    """Who signed is known; what changed is not, as the tables before are gone."""
    operators = by_key(trust_of(link))
    signed = [key for key in verified_keys(link.header_bytes, link.signatures) if key in operators]
    signers = tuple(Signer(operators[key].name, _fingerprint(key), operators[key].grade) for key in signed)
    digest = canonical.digest(link.header_bytes)
    return RevisionRecord(link.header.number, digest, link.signatures, now_s, Approval("apply", signers), {})


def _fingerprint(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
