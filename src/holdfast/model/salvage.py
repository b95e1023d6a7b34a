"""The parts that a node sends to a hub that lost its ledger. Values only; signatures and digests prove each part."""

from msgspec import Struct

from holdfast.model.hub_generation import SignedGeneration
from holdfast.model.node_view import GENERATION
from holdfast.model.record import Link
from holdfast.model.revision import Head

LINKS_MAX = 100  # in one part
PART_BYTES = 512 * 1024  # of contents in one part; a larger content travels alone
BODY_BYTES_MAX = 8 * 1024 * 1024


class SalvagePart(Struct, frozen=True, omit_defaults=True):
    """An empty one only asks what the hub needs."""

    fleet: str
    node: str
    links: tuple[Link, ...] = ()  # rising, without a gap
    manifest: bytes = b""  # of the newest revision the node accepted
    blobs: dict[str, bytes] = {}  # digest → content
    generation: SignedGeneration | None = None  # of the hub that this node follows
    wire: int = GENERATION


class SalvageAnswer(Struct, frozen=True, omit_defaults=True):
    wanted: bool  # False: this hub has a revision and needs nothing
    head: Head  # newest revision of the chain that the hub has without a gap
    manifest_wanted: bool = False  # of this node
    missing: tuple[str, ...] = ()  # contents of this node's manifest that the hub lacks
    wire: int = GENERATION
