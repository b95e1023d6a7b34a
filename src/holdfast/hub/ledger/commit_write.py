"""Write a previewed revision into the ledger, at once or not at all (I-08). Checks nothing again."""

from contextlib import suppress

import msgspec

from holdfast.errors import HoldfastError
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.commit import Preview, stale
from holdfast.hub.ledger.recoveries import settle
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.record import Approval, Pin, Recovery, RevisionRecord
from holdfast.model.rules import met_at
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Moved, Transaction
from holdfast.ports.random_source import RandomSource

STAGED_ABOVE_BLOBS = 2_000
STAGED_ABOVE_BYTES = 8 * 1024 * 1024
STAGE_BLOBS = 1_000
ADDRESSES_KEPT = 5  # in a record; the tables of two revisions have all of them


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
        final = _noting(final, keys.PIN, Pin(keys.FORMAT, ready.header.fleet))
    if store.get(keys.RULES) is None:  # this revision is the first of this ledger that the newest rules judge
        final = _noting(final, keys.RULES, met_at(ready.head.number - 1))
    large = len(ready.blobs) > STAGED_ABOVE_BLOBS or sum(map(len, ready.blobs.values())) > STAGED_ABOVE_BYTES
    try:
        return _staged(store, final, ready, clock, random) if large else store.commit(final)
    except Moved as trouble:  # another commit came between the preview and here
        raise stale(ready.header, reading.head_of(store)) from trouble


def _noting(of: Transaction, key: str, value: object) -> Transaction:
    """The same with a note that is written once."""
    return msgspec.structs.replace(of, put={**of.put, key: _json(value)}, expect={**of.expect, key: 0})


def _staged(store: LedgerStore, final: Transaction, ready: Preview, clock: Clock, random: RandomSource) -> int:
    """Write a recovery record, stage the blobs in portions so that other writers wait only briefly, then move the head
    and delete the record in one transaction."""
    digests = tuple(sorted(ready.blobs))
    head = reading.head_of(store)
    name = random.token(8).hex()
    armed = Recovery(name, head.number, head.digest, ready.head.digest, clock.now_s(), digests)
    version = store.commit(Transaction(expect={keys.recovery(name): 0}, put={keys.recovery(name): _json(armed)}))
    try:
        for at in range(0, len(digests), STAGE_BLOBS):
            portion = {digest: ready.blobs[digest] for digest in digests[at : at + STAGE_BLOBS]}
            store.commit(Transaction(expect={}, put={}, blobs=portion))
        # A sweep of the record in between also dropped the staged blobs: then this last step must fail.
        expect = {**final.expect, keys.recovery(name): version}
        return store.commit(msgspec.structs.replace(final, expect=expect, delete=(keys.recovery(name),), blobs={}))
    except HoldfastError:
        with suppress(HoldfastError):  # refused, not killed: our own record must not block the next boot
            settle(store, armed)
        raise


def _record(ready: Preview, signatures: tuple[str, ...], now_s: float) -> RevisionRecord:
    kinds: dict[str, int] = {}
    for change in ready.judged.changes:
        kinds[change.kind] = kinds.get(change.kind, 0) + 1
    approval = Approval(ready.approved.grade, ready.approved.signers, ready.judged.removals)
    addresses = tuple(change.address for change in ready.judged.changes[:ADDRESSES_KEPT])
    head = ready.head
    return RevisionRecord(head.number, head.digest, signatures, now_s, approval, kinds, addresses, ready.message)


def _json(value: object) -> bytes:
    return canonical.encode(value)
