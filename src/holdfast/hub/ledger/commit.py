"""Take one signed revision into the ledger: preview everything, then write at once or not at all (I-08)."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, Corrupt, HoldfastError, SignatureRequired
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.ledger.recovery import settle
from holdfast.model import canonical
from holdfast.model.applied import Applied, head_of, table_of
from holdfast.model.record import Approval, Pin, Recovery, RevisionRecord
from holdfast.model.revision import (
    Candidate,
    Head,
    Header,
    Table,
    decode_header,
    decode_table,
    digest_of,
)
from holdfast.model.trust import Trust
from holdfast.planning.contents import layered
from holdfast.planning.header import check_header
from holdfast.planning.succession import Judged, judge
from holdfast.planning.unsound import Unsound
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Moved, Reading, Transaction
from holdfast.ports.random_source import RandomSource
from holdfast.trust.approval import Approved, approve_keys, refuse_unsigned, verified_keys
from holdfast.trust.chain import check_succession

STAGED_ABOVE_BLOBS = 2_000
STAGED_ABOVE_BYTES = 8 * 1024 * 1024
STAGE_BLOBS = 1_000


class Preview(Struct, frozen=True):
    """Proof that a candidate passed every check against one loaded head. Made by `preview` alone."""

    head: Head
    header: Header
    table: Table
    trust: Trust
    judged: Judged
    approved: Approved
    blobs: Mapping[str, bytes]


def preview(store: Reading, loaded: reading.Loaded, candidate: Candidate) -> Preview:
    """Every reason to refuse, before anything is written or armed."""
    try:
        return _preview(store, loaded, candidate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Unsound(f"a part of it cannot be read: {trouble}") from trouble
    except SignatureRequired as lacking:
        digest = digest_of(candidate.header)
        raise SignatureRequired(f"{lacking.message}; the digest to sign is {digest}", remedy=lacking.remedy) from None


def _preview(store: Reading, loaded: reading.Loaded, candidate: Candidate) -> Preview:
    header = decode_header(candidate.header)
    applied = loaded.applied
    _check_base(store, applied, header)
    blobs = _checked_blobs(candidate, header)
    known = layered(blobs, reading.Contents(store))
    trust = canonical.decode(_content(known, header.trust, "the trust"), Trust, "the trust")
    current = applied.trust if applied else trust
    keys_signed = verified_keys(candidate.header, candidate.signatures)
    refuse_unsigned(keys_signed, current)  # nothing dear is computed for a stranger
    table = decode_table(_content(known, header.resources, "the resource table"))
    manifests = check_header(header, table)
    judged = judge(table_of(applied), table, reading.Contents(store), known, header.number)
    _check_complete(store, table, table_of(applied), blobs)
    addresses = tuple(change.address for change in judged.changes)
    incoming = trust if applied and applied.trust != trust else None
    approved = approve_keys(keys_signed, judged.grade, addresses, current, incoming)
    head = Head(header.number, digest_of(candidate.header))
    stored = {head.digest: candidate.header, **_wanted(blobs, header, table), **_fresh(manifests, applied)}
    return Preview(head, header, table, trust, judged, approved, stored)


def _check_base(store: Reading, applied: Applied | None, header: Header) -> None:
    head = head_of(applied)
    if header.number <= head.number or header.parent != head.digest:
        raise _stale(header, head)
    if applied is not None:
        check_succession(applied.fleet_id, head, header)
        return
    if store.scan(keys.SALVAGED_LINKS):  # a second revision 1 would fork every node that holds the first
        raise Conflict(
            "nodes hold revisions of this fleet that this ledger lost",
            remedy="holdfast import ledger --state-dir DIR on the hub's machine rebuilds it; then apply",
            code="ledger_lost",
        )
    if header.trust != header.fleet:
        raise Unsound("a first revision founds the fleet whose id it carries")
    if (pinned := reading.pin(store)) is not None:  # else an offline ledger's first apply pins its own fleet
        check_succession(pinned.fleet, head, header)


def _stale(header: Header, head: Head) -> Conflict:
    return Conflict(
        f"this plan was made on top of revision {header.number - 1}, but the ledger is at revision {head.number}",
        remedy="plan again and look at the changes anew: holdfast plan",
        code="stale_base",
    )


def _checked_blobs(candidate: Candidate, header: Header) -> dict[str, bytes]:
    blobs = dict(candidate.blobs)
    blobs[header.resources] = candidate.table
    for digest, content in blobs.items():
        if canonical.digest(content) != digest:
            raise Corrupt(
                f"the content that came as {digest[:12]}… is something else",
                remedy="plan again; if it was a saved plan, that file was changed after it was written",
                code="blob_damaged",
            )
    return blobs


def _wanted(blobs: Mapping[str, bytes], header: Header, table: Table) -> dict[str, bytes]:
    """Only what the signed header leads to; whoever carried the revision may have added more."""
    wanted = {header.resources, *(digest for entry in table.entries.values() for digest in entry.needs)}
    return {digest: content for digest, content in blobs.items() if digest in wanted}


def _fresh(manifests: Mapping[str, bytes], applied: Applied | None) -> dict[str, bytes]:
    held = set(applied.header.manifests.values()) if applied else set()
    return {digest: text for digest, text in manifests.items() if digest not in held}


def _check_complete(store: Reading, table: Table, before: Table, blobs: Mapping[str, bytes]) -> None:
    """What the parent already has is the parent's affair: its damage is shown by status and mended by an apply."""
    held = {digest for entry in before.entries.values() for digest in entry.needs}
    outside = {digest for entry in table.entries.values() for digest in entry.needs} - blobs.keys() - held
    absent = outside - store.has_blobs(outside) if outside else set()
    if absent:
        names = sorted(address for address, entry in table.entries.items() if absent & {*entry.needs})
        raise Corrupt(
            f"the content of {', '.join(names[:5])} is neither in this plan nor in the ledger",
            remedy="plan and apply again from the complete fleet directory",
            code="blob_missing",
        )


def _content(known: Mapping[str, bytes], digest: str, what: str) -> bytes:
    try:
        return known[digest]
    except KeyError:
        raise Unsound(f"{what} is missing") from None


# ---- writing --------------------------------------------------------------------------------------------------------


def write(
    store: LedgerStore,
    head_version: int,
    ready: Preview,
    signatures: tuple[str, ...],
    clock: Clock,
    random: RandomSource,
) -> int:
    """One transaction, its store revision returned; only an unusually large revision stages its blobs first."""
    record = _record(ready, signatures, clock.now_s())
    final = Transaction(
        expect={keys.HEAD: head_version, keys.revision(ready.head.number): 0},
        put={keys.HEAD: _json(ready.head), keys.revision(ready.head.number): _json(record)},
        blobs=ready.blobs,
    )
    if head_version == 0 and store.get(keys.PIN) is None:
        final = msgspec.structs.replace(
            final,
            put={**final.put, keys.PIN: _json(Pin(keys.FORMAT, ready.header.fleet))},
            expect={**final.expect, keys.PIN: 0},
        )
    large = len(ready.blobs) > STAGED_ABOVE_BLOBS or sum(map(len, ready.blobs.values())) > STAGED_ABOVE_BYTES
    try:
        return _staged(store, final, ready, clock, random) if large else store.commit(final)
    except Moved as trouble:  # somebody else was faster between the preview and here
        raise _stale(ready.header, reading.head_of(store)) from trouble


def _staged(store: LedgerStore, final: Transaction, ready: Preview, clock: Clock, random: RandomSource) -> int:
    """Arm, stage in portions so that nobody waits long for the writer, then move head and disarm in one step."""
    digests = tuple(sorted(ready.blobs))
    head = reading.head_of(store)
    name = random.token(8).hex()
    armed = Recovery(name, head.number, head.digest, ready.head.digest, clock.now_s(), digests)
    version = store.commit(Transaction(expect={keys.recovery(name): 0}, put={keys.recovery(name): _json(armed)}))
    try:
        for at in range(0, len(digests), STAGE_BLOBS):
            portion = {digest: ready.blobs[digest] for digest in digests[at : at + STAGE_BLOBS]}
            store.commit(Transaction(expect={}, put={}, blobs=portion))
        # Whoever swept the record in between also dropped what was staged: then this last step must fail.
        expect = {**final.expect, keys.recovery(name): version}
        return store.commit(msgspec.structs.replace(final, expect=expect, delete=(keys.recovery(name),), blobs={}))
    except HoldfastError:
        with suppress(HoldfastError):  # refused, not killed: our own record must not block the next boot
            _settle(store, armed)
        raise


def sweep(store: LedgerStore) -> list[str]:
    """Settle every commit that was cut short; says what it did. Safe to repeat."""
    return [said for record in reading.recoveries(store) if (said := _settle(store, record))]


def _settle(store: LedgerStore, record: Recovery) -> str | None:
    entry = store.get(keys.recovery(record.id))
    if entry is None:
        return None
    head = reading.head_of(store)
    settled = settle(record, head, _referenced(store, head))
    store.commit(
        Transaction(
            expect={keys.recovery(record.id): entry.modified},
            put={},
            delete=(keys.recovery(record.id),),
            drop_blobs=settled.drop_blobs,
        )
    )
    return f"{settled.outcome}: {settled.why}"


def _referenced(store: LedgerStore, head: Head) -> set[str]:
    """Digests that any stored revision needs."""
    needed: set[str] = set()
    first = reading.kept_from(store)
    for number in range(1, head.number + 1):
        digest = reading.record_of(store, number).digest
        header = decode_header(store.blob(digest) or b"")
        needed |= {digest, header.resources, header.trust, *header.manifests.values()}
        content = store.blob(header.resources)
        if content is None and number < first:
            continue  # not kept when the ledger was rebuilt
        table = decode_table(content or b"")
        needed |= {digest for entry in table.entries.values() for digest in entry.needs}
    return needed


def _record(ready: Preview, signatures: tuple[str, ...], now_s: float) -> RevisionRecord:
    kinds: dict[str, int] = {}
    for change in ready.judged.changes:
        kinds[change.kind] = kinds.get(change.kind, 0) + 1
    approval = Approval(ready.approved.grade, ready.approved.signers, ready.judged.removals)
    return RevisionRecord(ready.head.number, ready.head.digest, signatures, now_s, approval, kinds)


def _json(value: object) -> bytes:
    return canonical.encode(value)
