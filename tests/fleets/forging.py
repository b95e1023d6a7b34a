"""Revisions that a stolen hub makes with a key of its own: what a manifest says is not what the table says."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Candidate, decode_header, digest_of, encode_header
from tests.fleets.build import sign

Edit = Callable[[NodeManifest], NodeManifest]


def forged(before: Candidate, edit: Edit, signer: Any, node: str) -> Candidate:
    """The next revision, with the manifest of one node as `edit` makes it; the table stays as it is."""
    header = decode_header(before.header)
    manifest = edit(canonical.decode(before.blobs[header.manifests[node]], NodeManifest, "it"))
    content = canonical.encode(manifest)
    manifests = {**header.manifests, node: canonical.digest(content)}
    after = replace(header, number=header.number + 1, parent=digest_of(before.header), manifests=manifests)
    return sign(Candidate(encode_header(after), before.table, {**before.blobs, manifests[node]: content}), signer)
