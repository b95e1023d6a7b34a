"""What the ledger stores with each revision: signatures, approval, recovery. Values only."""

from msgspec import UNSET, Struct, UnsetType

from holdfast.model.fleet import Grade
from holdfast.model.revision import Header, decode_header


class Signer(Struct, frozen=True):
    """One verified signature: the operator, the key, and the grade at that time."""

    operator: str
    fingerprint: str
    grade: Grade


class Approval(Struct, frozen=True):
    """The evidence that operators wanted this change: bound to the digest that was shown and signed (anchors B5)."""

    grade: Grade
    signers: tuple[Signer, ...]
    removals: tuple[str, ...] = ()


class RevisionRecord(Struct, frozen=True):
    number: int
    digest: str
    signatures: tuple[str, ...]
    committed_at_s: float
    approval: Approval
    changes: dict[str, int]  # kind of change → how many
    addresses: tuple[str, ...] | UnsetType = UNSET  # the first of those that changed; UNSET before this field
    message: str | UnsetType = UNSET  # of the operator; not signed


class Pin(Struct, frozen=True):
    """The first key of a ledger: its fleet. The trust of revision 1 must have exactly this digest."""

    format: int
    fleet: str


class Rebuilt(Struct, frozen=True):
    """This ledger was lost and rebuilt from what nodes held: tables before `first` are not kept."""

    first: int
    at_s: float


class Recovery(Struct, frozen=True):
    """A multi-step commit in progress: written only after its preview passed, deleted with the step that moves head."""

    id: str
    base: int  # head number it started from
    base_digest: str
    target_digest: str
    armed_at_s: float
    blobs: tuple[str, ...]  # staged ahead of head


class Link(Struct, frozen=True):
    """One revision for a verifier: signed bytes, signatures, and the trust it names."""

    header_bytes: bytes
    signatures: tuple[str, ...]
    trust_bytes: bytes

    @property
    def header(self) -> Header:
        return decode_header(self.header_bytes)
