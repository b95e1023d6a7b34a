"""Examine a whole ledger as if nothing had been checked before: chain, signatures, grades, contents. Reads only."""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub import reading
from holdfast.hub.boot import inspect
from holdfast.ledger import keys
from holdfast.ledger.readiness import Finding, finding, from_error
from holdfast.model import canonical
from holdfast.model.applied import content
from holdfast.model.revision import Head, Table, decode_table, digest_of
from holdfast.model.trust import Trust
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.succession import judge
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerReader
from holdfast.trust.approval import approve
from holdfast.trust.chain import Anchor, step

CONTENT_CODES = ("blob_missing", "blob_damaged")


class Verdict(Struct, frozen=True):
    findings: tuple[Finding, ...]
    revisions: int
    signatures: int
    contents: int

    @property
    def sound(self) -> bool:
        return not self.findings


def examine(store: LedgerReader, high_water: HighWater) -> Verdict:
    booted = inspect(store, high_water)
    findings = list(booted.findings)
    applied = booted.loaded.applied
    if applied is None:
        return Verdict(tuple(findings), 0, 0, 0)
    signatures = 0
    try:
        for count in _history(store, applied.head):
            signatures += count
    except HoldfastError as trouble:
        if not _is_known(trouble, findings):
            findings.append(_finding(trouble))
    wanted = {entry.digest for entry in applied.table.entries.values()}
    findings += _litter(store, applied.head)
    return Verdict(tuple(findings), applied.head.number, signatures, len(wanted))


def _history(store: LedgerReader, head: Head) -> Iterator[int]:
    """Every revision judged again on top of the one before it; yields how many signatures it carried."""
    contents = reading.Contents(store)
    pinned = reading.pin(store)
    first = reading.link_of(store, 1).header
    at = Anchor(pinned.fleet if pinned else first.fleet, Head(0, ""), None)
    before = Table({}, {})
    for number in range(1, head.number + 1):
        link = reading.link_of(store, number)
        header, trust = link.header, at.trust
        at = step(at, link)
        after = decode_table(content(contents, header.resources, f"the table of revision {number}"))
        compiled = {node: canonical.digest(text) for node, text in compile_manifests(header.fleet, after).items()}
        if compiled != header.manifests:
            raise _broken(number, "its manifests are not what its table compiles to")
        judged = judge(before, after, contents, contents, number)
        addresses = tuple(change.address for change in judged.changes)
        incoming = _trust(link.trust_bytes) if trust is not None and _trust(link.trust_bytes) != trust else None
        current = trust if trust is not None else _trust(link.trust_bytes)
        approve(link.header_bytes, link.signatures, judged.grade, addresses, current, incoming)
        before = after
        yield len(link.signatures)
    if at.head != head or digest_of(reading.link_of(store, head.number).header_bytes) != head.digest:
        raise _broken(head.number, "head is not the end of the chain")


def _litter(store: LedgerReader, head: Head) -> list[Finding]:
    """A revision record beyond head: two histories in one ledger."""
    beyond = [r.key for r in store.scan(keys.REVISIONS) if r.key > keys.revision(head.number)]
    return [finding("forked", f"{key} lies beyond the head ({head.number})") for key in beyond]


def _trust(trust_bytes: bytes) -> Trust:
    return canonical.decode(trust_bytes, Trust, "the trust")


def _is_known(trouble: HoldfastError, findings: list[Finding]) -> bool:
    """A content that is damaged now cannot be judged in the revision that brought it either: one fault, one finding."""
    return trouble.code in CONTENT_CODES and any(f.code in CONTENT_CODES for f in findings)


def _finding(trouble: HoldfastError) -> Finding:
    if isinstance(trouble, Corrupt) and trouble.code not in CONTENT_CODES:
        return from_error(trouble)
    return finding("chain_broken", f"the history does not hold: {trouble.message}")


def _broken(number: int, why: str) -> Corrupt:
    return Corrupt(f"revision {number}: {why}", remedy="restore the state directory from a backup", code="chain_broken")
