"""What becomes of a commit that was cut short. Pure: looks at facts, never at a remembered position.

A record is armed only after the whole commit was previewed, so a refused apply never leaves one behind; sweeping looks
at where head is now, so a second attempt clears the first one's record instead of adding its own (anchors.md §2).
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
    """`referenced` are digests that stored revisions need: staged blobs outside it are litter."""
    litter = tuple(digest for digest in record.blobs if digest not in referenced)
    if head.digest == record.target_digest:
        return Settlement("finished", (), f"revision {head.number} was committed; only the record was left")
    if (head.number, head.digest) == (record.base, record.base_digest):
        return Settlement("discarded", litter, f"head is still {head.number}: nothing had moved")
    return Settlement("overtaken", litter, f"head went on to {head.number} without it")
