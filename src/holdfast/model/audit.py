"""An audit entry, and the hash chain that reveals lost and changed entries. Values and digests only."""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical

GENESIS = "0" * 64


class Event(Struct, frozen=True, omit_defaults=True):
    """An event: who did what to what, with which result."""

    principal: str
    action: str
    target: str = ""
    result: str = "done"  # done, failed, refused, denied, parked
    detail: str = ""
    source: str = ""  # network address, order id, revision number
    count: int = 1  # of equal events folded into one line during a flood


class AuditEntry(Struct, frozen=True):
    number: int  # 1, 2, 3 …
    at_ms: int
    event: Event
    previous: str  # digest of the entry before; GENESIS for the first


class AuditHead(Struct, frozen=True):
    """Stored apart from the log, so that entries cut off its end are noticed."""

    number: int
    digest: str


NO_ENTRIES = AuditHead(0, GENESIS)


def encode(entry: AuditEntry) -> bytes:
    """One line without its newline."""
    return canonical.encode(entry)


def follow(head: AuditHead, line: bytes) -> AuditHead:
    """The head after one more line; raises at a break of the chain."""
    try:
        entry = canonical.decode(line, AuditEntry, f"audit entry {head.number + 1}")
    except Corrupt as trouble:
        raise _broken(head.number + 1, "it was changed after it was written") from trouble
    if entry.number != head.number + 1 or entry.previous != head.digest:
        raise _broken(head.number + 1, "it does not follow the entry before it")
    return AuditHead(entry.number, canonical.digest(line))


def verify(lines: Iterable[bytes], expected: AuditHead | None = None, start: AuditHead = NO_ENTRIES) -> AuditHead:
    head = start
    seen = head == expected
    for line in lines:
        head = follow(head, line)
        seen = seen or head == expected
    if expected is not None and not seen:
        raise _broken(expected.number, f"this entry was seen before, but the log ends with entry {head.number}")
    return head


def _broken(number: int, why: str) -> Corrupt:
    return Corrupt(
        f"the audit log is broken at entry {number}: {why}",
        remedy="keep the file as evidence; compare it with the copies of hub and node: holdfast audit --node NAME",
        code="audit_broken",
    )
