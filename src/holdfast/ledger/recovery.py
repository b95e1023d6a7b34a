"""Settle a commit that was interrupted, from the current head and the record. Pure.

A record is written only after the whole commit was previewed, so a refused apply leaves none. The sweep compares it
with the current head, so a second attempt clears the first one's record instead of adding its own (anchors.md §2).
"""

from typing import Literal

from msgspec import Struct

from holdfast.model.record import Recovery
from holdfast.model.revision import Head


class Settlement(Struct, frozen=True):
    outcome: Literal["finished", "discarded", "overtaken"]
    drop_blobs: tuple[str, ...]
    why: str


def settle(record: Recovery, head: Head, referenced: set[str]) -> Settlement:
    """`referenced` are digests that stored revisions need; other staged blobs are dropped."""
    litter = tuple(digest for digest in record.blobs if digest not in referenced)
    if head.digest == record.target_digest:
        return Settlement("finished", (), f"revision {head.number} was committed; only the record was left over")
    if (head.number, head.digest) == (record.base, record.base_digest):
        return Settlement("discarded", litter, f"head is still {head.number}: the commit had changed nothing")
    return Settlement("overtaken", litter, f"head is at {head.number}: another commit came first")
