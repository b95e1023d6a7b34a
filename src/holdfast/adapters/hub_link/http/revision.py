"""The applied revision as a hub sends it: every part must match its digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.ids import TRUST
from holdfast.model.revision import decode_header, decode_table
from holdfast.model.trust import Trust
from holdfast.wire.messages import PAGE_CONTENTS, AppliedRevision

KEPT_MAX, KEPT_BYTES_MAX = 10_000, 16 * 1024


class Source(Protocol):
    def blob(self, digest: str) -> bytes | None: ...

    def blobs(self, digests: Sequence[str]) -> dict[str, bytes] | None:
        """Those of them that fit into one answer; None if this hub gives one at a time only."""
        ...


def checked_revision(said: AppliedRevision, hub: Source, contents: Mapping[str, bytes] | None = None) -> Applied:
    """`contents`: those by their digest that need not be fetched."""
    try:
        header = decode_header(proven(said.header, said.head.digest, "the header"))
        if header.number != said.head.number:
            raise lie(f"the head is number {said.head.number}, its header says {header.number}")
        table = decode_table(proven(said.table, header.resources, "the resource table"))
        if TRUST not in table.entries or table.entries[TRUST].digest != header.trust:
            raise lie("the table and the header name different trusts")
        trust = canonical.decode(proven(said.trust, header.trust, "the trust"), Trust, "the trust")
    except UnicodeDecodeError as trouble:
        raise lie("a text in its answer is not UTF-8") from trouble
    named = {header.resources, *header.manifests.values(), *(e.digest for e in table.entries.values())}
    kept = {digest: proven(content, digest, "the content") for digest, content in (contents or {}).items()}
    return Applied(said.head, header, table, trust, Contents(hub, sorted(named), kept))


class Contents(Mapping[str, bytes]):
    """Contents by digest, fetched when asked for; `known` are those the applied revision itself names. A command that
    waits asks for the same few again and again: these are kept. A command that asks for one after the other gets more
    with each request, because it may read all of them."""

    def __init__(self, hub: Source, known: Sequence[str], kept: Mapping[str, bytes]) -> None:
        self._hub = hub
        self._known = known
        self._ahead = list(known)  # not fetched yet
        self._more = 0  # how many the next request fetches besides the one that is needed
        self._kept = dict(kept)

    def __getitem__(self, digest: str) -> bytes:
        if digest not in self._kept:
            self._fetch_ahead(digest)
        found = self._kept.get(digest) or self._hub.blob(digest)
        if found is None:
            raise KeyError(digest)
        self._keep(digest, found)
        return found

    def _fetch_ahead(self, digest: str) -> None:
        more, self._more = self._more, min(2 * self._more + 1, PAGE_CONTENTS - 1)
        more = min(more, KEPT_MAX - len(self._kept))
        ahead = [other for other in self._ahead[:more] if other != digest and other not in self._kept]
        self._ahead = self._ahead[more:]
        if ahead:
            page = self._hub.blobs((digest, *ahead))
            for other, content in (page or {}).items():
                self._keep(other, content)
            if page is None:  # this hub gives one content at a time
                self._ahead = []

    def _keep(self, digest: str, content: bytes) -> None:
        if len(self._kept) < KEPT_MAX and len(content) <= KEPT_BYTES_MAX:
            self._kept[digest] = content

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def proven(content: bytes, digest: str, what: str) -> bytes:
    if canonical.digest(content) != digest:
        raise lie(f"{what} does not match its digest {digest[:12]}…")
    return content


def lie(why: str) -> Corrupt:
    return Corrupt(
        f"the hub gives an answer that cannot be true: {why}",
        remedy="do not apply; look at the machine the hub runs on and restore its state directory from a backup",
        code="hub_lies",
    )
