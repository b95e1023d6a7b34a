"""A plan in a file: everything needed to look at it again, sign it elsewhere and apply it, bound by digests.

The header that is signed names its parent by digest, the parent's header names its table, and tables name contents: so
the changes shown to a second signer are computed from bytes that the signature covers, not from a description.
"""

from collections import ChainMap

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, Head, Header, Table, decode_header, decode_table, digest_of
from holdfast.model.trust import Trust

FORMAT = "holdfast-plan-1"
BYTES_MAX = 256 * 1024 * 1024


class SavedPlan(Struct, frozen=True):
    format: str
    candidate: Candidate
    base_header: bytes  # b"" for a first revision
    base_table: bytes
    base_trust: bytes
    base_contents: dict[str, bytes]
    warnings: tuple[str, ...]
    allow_removals: int | None


class Opened(Struct, frozen=True):
    """A saved plan whose every part matches the digests that bind it."""

    saved: SavedPlan
    plan: Plan
    base: Applied | None


def save(plan: Plan, applied: Applied | None, allow_removals: int | None) -> bytes:
    if plan.candidate is None:
        raise Invalid("there are no changes to save", remedy="edit the fleet directory first", code="nothing_to_save")
    if applied is None:
        saved = SavedPlan(FORMAT, plan.candidate, b"", b"", b"", {}, plan.warnings, allow_removals)
    else:
        digests = {applied.table.entries[c.address].digest for c in plan.changes if c.address in applied.table.entries}
        digests |= {applied.table.entries["fleet"].digest} | _borrowed(plan)
        saved = SavedPlan(
            FORMAT,
            plan.candidate,
            canonical.encode(applied.header),
            canonical.encode(applied.table),
            canonical.encode(applied.trust),
            {digest: applied.contents[digest] for digest in sorted(digests)},
            plan.warnings,
            allow_removals,
        )
    return msgspec.json.encode(saved) + b"\n"


def _borrowed(plan: Plan) -> set[str]:
    """Contents of changed entries that the candidate need not carry: a rollback's, or the same as a neighbour's."""
    assert plan.candidate is not None
    entries = decode_table(plan.candidate.table).entries
    return {entries[c.address].digest for c in plan.changes if c.address in entries} - plan.candidate.blobs.keys()


def read(content: bytes) -> Opened:
    try:
        saved = msgspec.json.decode(content, type=SavedPlan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Invalid(
            f"this is not a saved plan: {trouble}", remedy="make one with holdfast plan -o FILE", code="not_a_plan"
        ) from trouble
    if saved.format != FORMAT:
        raise Invalid(
            f"this plan has format {saved.format!r}, this release reads {FORMAT!r}",
            remedy="make it again with holdfast plan -o FILE",
            code="not_a_plan",
        )
    header = decode_header(saved.candidate.header)
    base = _base(saved, header)
    return Opened(saved, _plan(saved, header, base), base)


def _base(saved: SavedPlan, header: Header) -> Applied | None:
    if not header.parent:
        return None
    _same(digest_of(saved.base_header), header.parent, "base")
    before = decode_header(saved.base_header)
    _same(canonical.digest(saved.base_table), before.resources, "base table")
    _same(canonical.digest(saved.base_trust), before.trust, "base trust")
    for digest, content in saved.base_contents.items():
        _same(canonical.digest(content), digest, "base content")
    trust = canonical.decode(saved.base_trust, Trust, "the trust")
    table = decode_table(saved.base_table)
    return Applied(Head(before.number, header.parent), before, table, trust, saved.base_contents)


def _plan(saved: SavedPlan, header: Header, base: Applied | None) -> Plan:
    from holdfast.planning.compile import Compiled
    from holdfast.planning.plan import touched
    from holdfast.planning.succession import judge

    candidate = saved.candidate
    _same(canonical.digest(candidate.table), header.resources, "table")
    for digest, content in candidate.blobs.items():
        _same(canonical.digest(content), digest, "content")
    table = decode_table(candidate.table)
    old = base.contents if base else {}
    judged = judge(
        base.table if base else Table({}, {}),
        table,
        old,
        ChainMap(candidate.blobs, old),  # type: ignore[arg-type]
        header.number,
        detailed=True,
    )
    nodes = touched(Compiled(candidate, header, table), base)
    return Plan(base.head if base else Head(0, ""), judged.changes, judged.grade, candidate, saved.warnings, nodes)


def with_signature(saved: SavedPlan, armoured: str) -> bytes:
    candidate = replace(saved.candidate, signatures=(*saved.candidate.signatures, armoured))
    return msgspec.json.encode(replace(saved, candidate=candidate)) + b"\n"


def _same(found: str, expected: str, what: str) -> None:
    if found != expected:
        raise Corrupt(
            f"the {what} in this saved plan was changed after it was written",
            remedy="throw the file away and make it again: holdfast plan -o FILE",
            code="plan_damaged",
        )
