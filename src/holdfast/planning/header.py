"""Check that a header matches its resource table, by compiling it again. Pure; for hub, audit and saved plans."""

from holdfast.model import canonical
from holdfast.model.ids import FLEET, TRUST
from holdfast.model.revision import Header, Table
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.unsound import Unsound


def check_header(header: Header, table: Table) -> dict[str, bytes]:
    """Check everything the header claims about the table; returns the manifests by digest."""
    if FLEET not in table.entries or TRUST not in table.entries:
        raise Unsound("the table lacks the fleet or the trust resource")
    if table.entries[TRUST].digest != header.trust:
        raise Unsound("the table and the header name different trusts")
    if table.of_kind("node").keys() != header.manifests.keys():  # cheap, and before anything is compiled
        raise Unsound("the header has manifests for other nodes than the table")
    found = {node: (canonical.digest(text), text) for node, text in compile_manifests(header.fleet, table).items()}
    wrong = sorted(node for node, (digest, _) in found.items() if header.manifests[node] != digest)
    if wrong:
        raise Unsound(f"the manifest of {', '.join(wrong[:5])} is not what the table compiles to")
    return dict(found.values())
