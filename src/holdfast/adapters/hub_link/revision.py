"""The applied revision as a hub sends it: every part must match its digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.ids import TRUST
from holdfast.model.revision import decode_header, decode_table
from holdfast.model.trust import Trust
from holdfast.wire.messages import AppliedRevision

KEPT_MAX, KEPT_BYTES_MAX = 1_000, 16 * 1024

Blob = Callable[[str], "bytes | None"]  # the content with this digest


def checked_revision(said: AppliedRevision, blob: Blob) -> Applied:
    try:
        header = decode_header(proven(said.header, said.head.digest, "the header"))
        if header.number != said.head.number:
            raise lie(f"the head is number {said.head.number}, its header says {header.number}")
        table = decode_table(proven(said.table, header.resources, "the resource table"))
        if TRUST not in table.entries or table.entries[TRUST].digest != header.trust:
            raise lie("the table and the header name different trusts")
        trust = canonical.decode(proven(said.trust, header.trust, "the trust"), Trust, "the trust")
    except UnicodeDecodeError as trouble:
        raise lie("what should be text is not") from trouble
    named = {header.resources, *header.manifests.values(), *(e.digest for e in table.entries.values())}
    return Applied(said.head, header, table, trust, Contents(blob, sorted(named)))


class Contents(Mapping[str, bytes]):
    """Contents by digest, fetched when asked for; `known` are those the applied revision itself names. A command that
    waits asks for the same few again and again: these are kept."""

    def __init__(self, blob: Blob, known: Sequence[str]) -> None:
        self._blob = blob
        self._known = known
        self._kept: dict[str, bytes] = {}

    def __getitem__(self, digest: str) -> bytes:
        if digest in self._kept:
            return self._kept[digest]
        found = self._blob(digest)
        if found is None:
            raise KeyError(digest)
        if len(self._kept) < KEPT_MAX and len(found) <= KEPT_BYTES_MAX:
            self._kept[digest] = found
        return found

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
