"""Examine a whole ledger as if nothing had been checked before: chain, signatures, grades, contents. Reads only."""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.boot import inspect
from holdfast.hub.ledger.chain_check import follow, from_the_start, pass_over
from holdfast.ledger import keys
from holdfast.ledger.boot_findings import CONTENT_CODES, SECRET_LOST, Finding, finding, from_error
from holdfast.model.applied import needed
from holdfast.model.revision import Head
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerReader


class Verdict(Struct, frozen=True):
    findings: tuple[Finding, ...]
    revisions: int
    signatures: int
    contents: int
    notes: tuple[str, ...] = ()  # worth knowing, and nothing to be done about

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
    wanted = needed(applied)
    findings += _litter(store, applied.head)
    first = reading.kept_from(store)
    notes = (f"history before revision {first} was not kept: the ledger was rebuilt from what nodes held",)
    return Verdict(tuple(findings), applied.head.number, signatures, len(wanted), notes if first > 1 else ())


def _history(store: LedgerReader, head: Head) -> Iterator[int]:
    """Every revision judged again on top of the one before it; yields how many signatures it carried.

    Where a rebuilt ledger has no tables, the chain and its signatures are all there is to judge.
    """
    contents = reading.Contents(store)
    pinned = reading.pin(store)
    first, since = reading.kept_from(store), reading.rules_since(store)
    so_far = from_the_start(pinned.fleet if pinned else reading.link_of(store, 1).header.fleet)
    for number in range(1, head.number + 1):
        link = reading.link_of(store, number)
        known = number > first or first == 1
        has_table = number == first
        so_far = follow(so_far, link, contents, since) if known else pass_over(so_far, link, contents, has_table)
        yield len(link.signatures)
    if so_far.at.head != head:
        raise _broken(head.number, "head is not the end of the chain")


def _litter(store: LedgerReader, head: Head) -> list[Finding]:
    """A revision record beyond head: two histories in one ledger."""
    beyond = [r.key for r in store.scan(keys.REVISIONS) if r.key > keys.revision(head.number)]
    return [finding("forked", f"{key} lies beyond the head ({head.number})") for key in beyond]


def _is_known(trouble: HoldfastError, findings: list[Finding]) -> bool:
    """A content that is damaged now cannot be judged in the revision that brought it either: one fault, one finding."""
    return trouble.code in CONTENT_CODES and any(f.code in (*CONTENT_CODES, SECRET_LOST) for f in findings)


def _finding(trouble: HoldfastError) -> Finding:
    if isinstance(trouble, Corrupt) and trouble.code not in CONTENT_CODES:
        return from_error(trouble)
    return finding("chain_broken", f"the history does not hold: {trouble.message}")


def _broken(number: int, why: str) -> Corrupt:
    return Corrupt(f"revision {number}: {why}", remedy="restore the state directory from a backup", code="chain_broken")
