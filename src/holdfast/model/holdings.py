"""What a node says it holds of one provider: the handles of credentials that its containers may use. Values only."""

from typing import Annotated

from msgspec import Meta, Struct

NAMESPACE = "holdfast-holdings"
FORMAT = 1
HANDLES_MAX = 4_000


class Holdings(Struct, frozen=True, forbid_unknown_fields=True):
    """Signed by the node. `life` is one start of its agent; `sequence` grows in it; `is_sure` is false while its state
    was put back and no operator signed a resync: then what it does not name proves nothing."""

    format: int
    fleet: str
    node: str
    provider: str
    life: str
    sequence: int
    revision: int  # accepted
    is_sure: bool
    handles: Annotated[tuple[str, ...], Meta(max_length=HANDLES_MAX)]


class SignedHoldings(Struct, frozen=True, forbid_unknown_fields=True):
    statement: bytes  # canonical Holdings
    signature: str  # SSHSIG by the node's key
