"""Preview a signed revision: every reason to refuse it, before anything is written. commit_write.py writes it."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.errors import Conflict, Corrupt, SignatureRequired
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.model import canonical, message
from holdfast.model.applied import Applied, head_of, table_of
from holdfast.model.revision import (
    Candidate,
    Head,
    Header,
    Table,
    decode_header,
    decode_table,
    digest_of,
)
from holdfast.model.trust import Trust
from holdfast.planning.contents import layered
from holdfast.planning.header import check_header
from holdfast.planning.succession import Judged, judge
from holdfast.planning.unsound import Unsound
from holdfast.ports.ledger_store import Reading
from holdfast.trust.approval import Approved, approve_keys, refuse_unsigned, verified_keys
from holdfast.trust.chain import check_succession


class Preview(Struct, frozen=True):
    """Proof that a candidate passed every check against one loaded head. Made by `preview` alone."""

    head: Head
    header: Header
    table: Table
    trust: Trust
    judged: Judged
    approved: Approved
    blobs: Mapping[str, bytes]
    message: str | UnsetType = UNSET


def preview(store: Reading, loaded: reading.Loaded, candidate: Candidate) -> Preview:
    """Every reason to refuse, before anything is written or armed."""
    try:
        return _preview(store, loaded, candidate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Unsound(f"a part of it cannot be read: {trouble}") from trouble
    except SignatureRequired as lacking:
        digest = digest_of(candidate.header)
        raise SignatureRequired(f"{lacking.message}; the digest to sign is {digest}", remedy=lacking.remedy) from None


def _preview(store: Reading, loaded: reading.Loaded, candidate: Candidate) -> Preview:
    header = decode_header(candidate.header)
    if candidate.message is not UNSET:
        message.check(candidate.message)
    applied = loaded.applied
    _check_base(store, applied, header)
    blobs = _checked_blobs(candidate, header)
    known = layered(blobs, reading.Contents(store))
    trust = canonical.decode(_content(known, header.trust, "the trust"), Trust, "the trust")
    current = applied.trust if applied else trust
    keys_signed = verified_keys(candidate.header, candidate.signatures)
    refuse_unsigned(keys_signed, current)  # no costly computation for an unsigned request
    table = decode_table(_content(known, header.resources, "the resource table"))
    manifests = check_header(header, table)
    judged = judge(table_of(applied), table, reading.Contents(store), known, header.number)
    _check_complete(store, table, table_of(applied), blobs)
    incoming = trust if applied and applied.trust != trust else None
    approved = approve_keys(keys_signed, judged.grade, judged.covers, current, incoming)
    head = Head(header.number, digest_of(candidate.header))
    stored = {head.digest: candidate.header, **_wanted(blobs, header, table), **_fresh(manifests, applied)}
    return Preview(head, header, table, trust, judged, approved, stored, candidate.message)


def _check_base(store: Reading, applied: Applied | None, header: Header) -> None:
    head = head_of(applied)
    if header.number <= head.number or header.parent != head.digest:
        raise stale(header, head)
    if applied is not None:
        check_succession(applied.fleet_id, head, header)
        if store.scan(keys.SALVAGED_LINKS):  # a second revision of that number would fork the nodes that have the first
            raise Conflict(
                f"nodes have newer revisions than {head.number}, which this ledger lost",
                remedy="`holdfast import ledger --state-dir DIR` on its machine gets them; restart it, then apply",
                code="ledger_behind",
            )
        return
    if store.scan(keys.SALVAGED_LINKS):  # a second revision 1 would fork every node that holds the first
        raise Conflict(
            "nodes hold revisions of this fleet that this ledger lost",
            remedy="`holdfast import ledger --state-dir DIR` on the hub's machine rebuilds it; then apply",
            code="ledger_lost",
        )
    if header.trust != header.fleet:
        raise Unsound("a first revision founds the fleet whose id it carries")
    if (pinned := reading.pin(store)) is not None:  # else an offline ledger's first apply pins its own fleet
        check_succession(pinned.fleet, head, header)


def stale(header: Header, head: Head) -> Conflict:
    return Conflict(
        f"this plan was made on top of revision {header.number - 1}, but the ledger is at revision {head.number}",
        remedy="plan again and look at the changes again: holdfast plan",
        code="stale_base",
    )


def _checked_blobs(candidate: Candidate, header: Header) -> dict[str, bytes]:
    blobs = dict(candidate.blobs)
    blobs[header.resources] = candidate.table
    for digest, content in blobs.items():
        if canonical.digest(content) != digest:
            raise Corrupt(
                f"the content that came as {digest[:12]}… is something else",
                remedy="plan again; if it was a saved plan, that file was changed after it was written",
                code="blob_damaged",
            )
    return blobs


def _wanted(blobs: Mapping[str, bytes], header: Header, table: Table) -> dict[str, bytes]:
    """Only what the signed header leads to; the sender may have added more."""
    wanted = {header.resources, *(digest for entry in table.entries.values() for digest in entry.needs)}
    return {digest: content for digest, content in blobs.items() if digest in wanted}


def _fresh(manifests: Mapping[str, bytes], applied: Applied | None) -> dict[str, bytes]:
    held = set(applied.header.manifests.values()) if applied else set()
    return {digest: text for digest, text in manifests.items() if digest not in held}


def _check_complete(store: Reading, table: Table, before: Table, blobs: Mapping[str, bytes]) -> None:
    """Contents of the parent are not checked here: status shows their damage, an apply repairs it."""
    held = {digest for entry in before.entries.values() for digest in entry.needs}
    outside = {digest for entry in table.entries.values() for digest in entry.needs} - blobs.keys() - held
    absent = outside - store.has_blobs(outside) if outside else set()
    if absent:
        names = sorted(address for address, entry in table.entries.items() if absent & {*entry.needs})
        raise Corrupt(
            f"the content of {', '.join(names[:5])} is neither in this plan nor in the ledger",
            remedy="plan and apply again from the complete fleet directory",
            code="blob_missing",
        )


def _content(known: Mapping[str, bytes], digest: str, what: str) -> bytes:
    try:
        return known[digest]
    except KeyError:
        raise Unsound(f"{what} is missing") from None
