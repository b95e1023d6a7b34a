"""What is applied now: head, table, trust, and contents looked up by digest. A value; knows no ledger."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.revision import NO_HEAD, Head, Header, Table
from holdfast.model.trust import Trust


class Applied(Struct, frozen=True):
    """`contents` answers lazily: a no-op plan of a thousand services reads none of them."""

    head: Head
    header: Header
    table: Table
    trust: Trust
    contents: Mapping[str, bytes]

    @property
    def fleet_id(self) -> str:
        return self.header.fleet


EMPTY_TABLE = Table({}, {})


def head_of(applied: Applied | None) -> Head:
    return applied.head if applied else NO_HEAD


def table_of(applied: Applied | None) -> Table:
    return applied.table if applied else EMPTY_TABLE


def needed(applied: Applied) -> tuple[str, ...]:
    """Digests of everything that serving this revision takes: contents of resources, secrets, manifests of nodes."""
    belong = (digest for entry in applied.table.entries.values() for digest in entry.needs)
    return tuple(sorted({*belong, *applied.header.manifests.values()}))


_PUT_BACK = (
    "put its file back as it was applied (version control has it) and run holdfast apply, which stores the content "
    "anew; then edit the file again"
)


def content(contents: Mapping[str, bytes], digest: str, what: str) -> bytes:
    try:
        found = contents[digest]
    except KeyError:
        raise Corrupt(
            f"the content of {what} ({digest[:12]}…) is not in the ledger",
            remedy=_PUT_BACK,
            code="blob_missing",
        ) from None
    if canonical.digest(found) != digest:
        raise Corrupt(
            f"the content of {what} does not match its digest {digest[:12]}…",
            remedy=_PUT_BACK,
            code="blob_damaged",
        )
    return found


def plain(content_bytes: bytes) -> Any:
    return msgspec.json.decode(content_bytes)
