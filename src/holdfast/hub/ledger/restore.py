"""Build a ledger from what nodes sent (salvage.py), in one transaction or not at all."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.salvage import salvaged_links, salvaged_manifests
from holdfast.ledger import keys
from holdfast.ledger.rebuild import Incomplete, Rebuilt, Spare, rebuild
from holdfast.model import canonical, record, ssh_key
from holdfast.model.record import Approval, Link, RevisionRecord, Signer
from holdfast.model.revision import NO_HEAD, Head, Header
from holdfast.planning.header import check_header
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerStore, Moved, Reading, Transaction
from holdfast.trust.approval import by_key, verified_keys
from holdfast.trust.chain import Anchor, step, trust_of


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
            "no node sent a chain that begins with revision 1 of this fleet",
            "start the hub (`holdfast hub run`) with its old key and address, and wait until nodes checked in; "
            "`holdfast hub check` shows what arrived",
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
