"""What the signatures of the accepted revision say about one address. Only agent/acceptance/vouching.py makes it."""

from msgspec import Struct

OWNER = "owner="


class ProvenAddress(Struct, frozen=True):
    """Proof that this node accepted a revision whose signatures reach the grade that `address` needs: `apply`, and
    `destroy` for what is in `approved`: host paths of a service as written, `owns` of a volume, `ends_orphans` of a
    node."""

    revision: int
    address: str
    approved: frozenset[str] = frozenset()


def owns(volume: str, owner: str) -> str:
    """All data in this volume of the service may be given to this owner."""
    return f"{OWNER}{owner} {volume}"


def ends_orphans(fate: str, foreign: bool) -> str:
    """The node may stop or remove containers that no agent of this fleet made, or that carry its labels only."""
    return f"orphans={fate}{' foreign' if foreign else ''}"
