"""The public hostnames that an edge carries, in words: who is told that it is down is told what that means. Pure."""

from collections.abc import Iterable

from holdfast.model.applied import Applied
from holdfast.status.edges.findings import wanted_of

NAMED_MAX = 5


def hostnames(node: str, applied: Applied | None) -> list[str]:
    return sorted({hostname for hostname, _ in wanted_of(node, applied)}) if applied is not None else []


def words(names: Iterable[str]) -> str:
    """To be added to a sentence about the edge; "" without hostnames."""
    known = sorted(names)
    if not known:
        return ""
    more = len(known) - NAMED_MAX
    shown = ", ".join(known[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"; it is the edge of {shown}, which may be down"
