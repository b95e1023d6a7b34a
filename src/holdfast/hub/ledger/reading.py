"""Reading a ledger: head, the applied revision, records, links. Takes no lock and writes nothing (I-09, O-34)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt, HoldfastError, Invalid
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.ids import TRUST
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, Pin, Rebuilt, Recovery, RevisionRecord
from holdfast.model.revision import Head, decode_header, decode_table
from holdfast.model.rules import RulesSince, met_at
from holdfast.model.trust import Trust
from holdfast.ports.ledger_store import LedgerReader, Reading

T = TypeVar("T")

RECORDS_MAX = 1_000


class Contents(Mapping[str, bytes]):
    """Blobs by digest, fetched when asked for; `blob` does it, instead of the store itself."""

    def __init__(self, store: Reading, blob: Callable[[str], bytes | None] | None = None) -> None:
        self._store = store
        self._blob = blob or store.blob

    def __getitem__(self, digest: str) -> bytes:
        found = self._blob(digest)
        if found is None:
            raise KeyError(digest)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.blob_digests())

    def __len__(self) -> int:
        return sum(1 for _ in self._store.blob_digests())


class Loaded(Struct, frozen=True):
    """The head as found, with the store revision that a writer must still find there (0: no head yet)."""

    applied: Applied | None
    head_version: int


def pin(store: Reading) -> Pin | None:
    record = store.get(keys.PIN)
    if record is None:
        return None
    found = _decode(record.value, Pin, "the ledger's pin")
    if found.format != keys.FORMAT:
        raise Corrupt(
            f"this ledger has format {found.format}, this release reads format {keys.FORMAT}",
            remedy="install the release that wrote this ledger, or a newer one",
            code="ledger_newer",
        )
    return found


def kept_from(store: Reading) -> int:
    """The first revision whose table this ledger has: 1, unless it was rebuilt from what nodes held."""
    record = store.get(keys.REBUILT)
    return _decode(record.value, Rebuilt, "the ledger's note of its rebuilding").first if record else 1


def rules_since(store: Reading) -> RulesSince:
    """Noted by the first commit of a release that has the rules; before it, every revision is of a release before."""
    record = store.get(keys.RULES)
    if record is None:
        return met_at(head_of(store).number)
    return _decode(record.value, RulesSince, "the ledger's note of its rules")


def load(store: LedgerReader) -> Loaded:
    """The applied revision, every part checked against the digest that names it."""
    with store.reading() as view:
        pin(view)
        record = view.get(keys.HEAD)
        if record is None:
            return Loaded(None, 0)
        head = _decode(record.value, Head, "the ledger's head")
        header_bytes = _blob(view, head.digest, f"the header of revision {head.number}")
        header = decode_header(header_bytes)
        if header.number != head.number:
            raise _damaged(f"head says revision {head.number}, its header says {header.number}")
        table = decode_table(_blob(view, header.resources, "the resource table"))
        if TRUST not in table.entries or table.entries[TRUST].digest != header.trust:
            raise _damaged("the table and the header name different trusts")
        trust = canonical.decode(_blob(view, header.trust, "the trust"), Trust, "the trust")
    return Loaded(Applied(head, header, table, trust, Contents(store)), record.modified)


def rebound(loaded: Loaded, contents: Contents) -> Loaded:
    """The same head, with these contents."""
    if loaded.applied is None:
        return loaded
    return replace(loaded, applied=replace(loaded.applied, contents=contents))


def records(store: Reading, newest: int, limit: int) -> list[RevisionRecord]:
    """Downwards from number `newest`."""
    wanted = range(newest, max(newest - min(limit, RECORDS_MAX), 0), -1)
    return [record_of(store, number) for number in wanted]


def head_of(store: Reading) -> Head:
    record = store.get(keys.HEAD)
    return _decode(record.value, Head, "the ledger's head") if record else Head(0, "")


def record_of(store: Reading, number: int) -> RevisionRecord:
    record = store.get(keys.revision(number))
    if record is None:
        what, remedy = f"revision {number} is not in the ledger", "`holdfast history` lists the revisions there are"
        if 0 < number <= head_of(store).number:
            raise Corrupt(what, remedy=remedy, code="chain_broken")
        raise Invalid(what, remedy=remedy, code="not_found")
    return _decode(record.value, RevisionRecord, f"the record of revision {number}")


def heads(store: Reading, numbers: Iterable[int]) -> tuple[Head, ...]:
    """Those of these revisions that the ledger has: a rebuilt one has lost its first ones."""
    found: list[Head] = []
    for number in numbers:
        with suppress(HoldfastError):
            found.append(Head(number, record_of(store, number).digest))
    return tuple(found)


def links(store: Reading, first: int, last: int) -> list[Link]:
    return [link_of(store, number) for number in range(max(first, 1), last + 1)]


def link_of(store: Reading, number: int) -> Link:
    record = record_of(store, number)
    header_bytes = _blob(store, record.digest, f"the header of revision {number}")
    trust_bytes = _blob(store, decode_header(header_bytes).trust, f"the trust of revision {number}")
    return Link(header_bytes, record.signatures, trust_bytes)


def recoveries(store: Reading) -> list[Recovery]:
    return [_decode(r.value, Recovery, f"the record {r.key}") for r in store.scan(keys.RECOVERIES)]


def observations(store: Reading) -> dict[str, NodeObservation]:
    found = [_decode(r.value, NodeObservation, r.key) for r in store.scan(keys.OBSERVATIONS)]
    return {seen.node: seen for seen in found}


def stored_digests(store: Reading, wanted: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each wanted digest with the digest of what is really stored under it."""
    for digest, content in store.read_blobs(wanted):
        yield digest, None if content is None else canonical.digest(content)


def _blob(store: Reading, digest: str, what: str) -> bytes:
    content = store.blob(digest)
    if content is None:
        raise _damaged(f"{what} is missing")
    if canonical.digest(content) != digest:
        raise _damaged(f"{what} does not match its digest")
    return content


def _decode(content: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise _damaged(f"{what} cannot be read: {trouble}") from trouble


def _damaged(why: str) -> Corrupt:
    return Corrupt(
        f"the ledger is damaged: {why}", remedy="restore the state directory from a backup", code="head_damaged"
    )
