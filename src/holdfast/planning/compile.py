"""Compile a resource table into a revision: header, manifests and blobs. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.applied import Applied, head_of
from holdfast.model.ids import TRUST
from holdfast.model.revision import FORMAT, Candidate, Header, Table, encode_header
from holdfast.planning.manifests import compile_manifests


class Compiled(Struct, frozen=True):
    candidate: Candidate
    header: Header
    table: Table


def compile_revision(table: Table, applied: Applied | None, fresh: Mapping[str, bytes]) -> Compiled:
    """`fresh` has new contents by digest; any other must be in the parent or in the ledger's history."""
    trust_digest = table.entries[TRUST].digest
    fleet_id = applied.fleet_id if applied else trust_digest
    head = head_of(applied)
    table_bytes = canonical.encode(table)
    manifests = {node: (canonical.digest(text), text) for node, text in compile_manifests(fleet_id, table).items()}
    header = Header(
        FORMAT,
        fleet_id,
        head.number + 1,
        head.digest,
        trust_digest,
        canonical.digest(table_bytes),
        {node: digest for node, (digest, _) in manifests.items()},
    )
    blobs = {header.resources: table_bytes}
    known = set(applied.header.manifests.values()) if applied else set()
    blobs.update((digest, text) for digest, text in manifests.values() if digest not in known)
    held = {digest for entry in applied.table.entries.values() for digest in entry.needs} if applied else set()
    for entry in table.entries.values():
        blobs.update((digest, fresh[digest]) for digest in entry.needs if digest not in held and digest in fresh)
    return Compiled(Candidate(encode_header(header), table_bytes, blobs), header, table)
