"""Recover interrupted commits: complete or drop what a recovery record names. Safe to repeat."""

from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.ledger.recovery import settle as settled_by
from holdfast.model.record import Recovery
from holdfast.model.revision import Head, decode_header, decode_table
from holdfast.ports.ledger_store import LedgerStore, Transaction


def sweep(store: LedgerStore) -> list[str]:
    """Settle each of them; return what was done."""
    return [done for record in reading.recoveries(store) if (done := settle(store, record))]


def settle(store: LedgerStore, record: Recovery) -> str | None:
    entry = store.get(keys.recovery(record.id))
    if entry is None:
        return None
    head = reading.head_of(store)
    settled = settled_by(record, head, _referenced(store, head))
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
