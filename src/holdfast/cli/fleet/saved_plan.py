"""A plan in a file: everything needed to show, sign and apply it elsewhere, bound by digests.

The signed header names its parent by digest, the parent's header names its table, and tables name contents. So the
changes shown to a second signer are computed from bytes that the signature covers, not from a description. Opening a
file makes every check that the hub will make; only the warnings are not covered.
"""

from collections.abc import Iterator, Mapping
from shlex import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied, content, table_of
from holdfast.model.plan import Plan
from holdfast.model.revision import (
    NO_HEAD,
    Candidate,
    Head,
    Header,
    decode_header,
    decode_table,
    digest_of,
)
from holdfast.model.trust import Trust
from holdfast.planning.compile import Compiled
from holdfast.planning.contents import layered
from holdfast.planning.header import check_header
from holdfast.planning.step import touched
from holdfast.planning.succession import Judged, judge
from holdfast.ports.disk import Disk

FORMAT = "holdfast-plan-1"
BYTES_MAX = 256 * 1024 * 1024


class SavedPlan(Struct, frozen=True):
    format: str
    base: Head
    candidate: Candidate | None  # None: there were no changes
    base_header: bytes  # b"" for a first revision
    base_table: bytes
    base_trust: bytes
    base_contents: dict[str, bytes]
    warnings: tuple[str, ...]


class Opened(Struct, frozen=True):
    """A saved plan whose every part matches the digests that bind it."""

    saved: SavedPlan
    plan: Plan
    base: Applied | None


class Noted(Mapping[str, bytes]):
    """Contents that record which of them were read: opening the file will need exactly these."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self.asked: dict[str, bytes] = {}

    def __getitem__(self, digest: str) -> bytes:
        self.asked[digest] = found = self._contents[digest]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)


def save(plan: Plan, applied: Applied | None) -> bytes:
    if plan.candidate is None or applied is None:
        saved = SavedPlan(FORMAT, plan.base, plan.candidate, b"", b"", b"", {}, plan.warnings)
        return msgspec.json.encode(saved) + b"\n"
    noted = Noted(applied.contents)
    content(noted, applied.table.entries["fleet"].digest, "fleet")  # the limit of removals is in it
    _judged(plan.candidate, replace(applied, contents=noted))
    saved = SavedPlan(
        FORMAT,
        plan.base,
        plan.candidate,
        canonical.encode(applied.header),
        canonical.encode(applied.table),
        canonical.encode(applied.trust),
        noted.asked,
        plan.warnings,
    )
    return msgspec.json.encode(saved) + b"\n"


def open_file(path: str, disk: Disk) -> Opened:
    found = disk.read(path, BYTES_MAX)
    if found is None:
        raise Invalid(f"{path} does not exist", remedy=f"save a plan first: holdfast plan -o {quote(path)}")
    return read(found)


def read(file: bytes) -> Opened:
    try:
        saved = msgspec.json.decode(file, type=SavedPlan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Invalid(
            f"this is not a saved plan: {trouble}", remedy="create one with `holdfast plan -o FILE`", code="not_a_plan"
        ) from trouble
    if saved.format != FORMAT:
        raise Invalid(
            f"this plan has format {saved.format!r}, this release reads {FORMAT!r}",
            remedy="create it again with `holdfast plan -o FILE`",
            code="not_a_plan",
        )
    if saved.candidate is None:
        return Opened(saved, Plan(saved.base, (), "apply", None, saved.warnings), None)
    header = decode_header(saved.candidate.header)
    base = _base(saved, header)
    return Opened(saved, _plan(saved, saved.candidate, header, base), base)


def _base(saved: SavedPlan, header: Header) -> Applied | None:
    if not header.parent:
        return None
    _same(digest_of(saved.base_header), header.parent, "base")
    before = decode_header(saved.base_header)
    _same(canonical.digest(saved.base_table), before.resources, "base table")
    _same(canonical.digest(saved.base_trust), before.trust, "base trust")
    for digest, found in saved.base_contents.items():
        _same(canonical.digest(found), digest, "base content")
    trust = canonical.decode(saved.base_trust, Trust, "the trust")
    table = decode_table(saved.base_table)
    return Applied(Head(before.number, header.parent), before, table, trust, saved.base_contents)


def _plan(saved: SavedPlan, candidate: Candidate, header: Header, base: Applied | None) -> Plan:
    _check_place_in_chain(header, base)
    _same(canonical.digest(candidate.table), header.resources, "table")
    for digest, found in candidate.blobs.items():
        _same(canonical.digest(found), digest, "content")
    table = decode_table(candidate.table)
    check_header(header, table)
    judged = _judged_again(candidate, base)
    nodes = touched(Compiled(candidate, header, table), base)
    head = base.head if base else NO_HEAD
    _same(f"{saved.base}", f"{head}", "base")
    return Plan(head, judged.changes, judged.grade, candidate, saved.warnings, nodes)


def _judged_again(candidate: Candidate, base: Applied | None) -> Judged:
    """By the rules of this release. An older one may have saved too little for them."""
    try:
        return _judged(candidate, base)
    except Corrupt as trouble:
        if trouble.code != "blob_missing":
            raise
        raise Invalid(
            f"this plan lacks a content that this release judges it by: {trouble.message}",
            remedy="create it again with `holdfast plan -o FILE`",
            code="not_a_plan",
        ) from trouble


def _judged(candidate: Candidate, base: Applied | None) -> Judged:
    old = base.contents if base else {}
    header, table = decode_header(candidate.header), decode_table(candidate.table)
    return judge(table_of(base), table, old, layered(candidate.blobs, old), header.number, detailed=True)


def _check_place_in_chain(header: Header, base: Applied | None) -> None:
    from holdfast.trust.chain import check_succession

    check_succession(base.fleet_id if base else header.trust, base.head if base else NO_HEAD, header)


def with_signature(saved: SavedPlan, candidate: Candidate, armoured: str) -> bytes:
    signed = replace(candidate, signatures=(*candidate.signatures, armoured))
    return msgspec.json.encode(replace(saved, candidate=signed)) + b"\n"


def _same(found: str, expected: str, what: str) -> None:
    if found != expected:
        raise Corrupt(
            f"the {what} in this saved plan was changed after it was written",
            remedy="delete the file and create it again: holdfast plan -o FILE",
            code="plan_damaged",
        )
