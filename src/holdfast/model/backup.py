"""Backups: the receipt that a node signs for each one, and what it reports about them. Values only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model import canonical
from holdfast.model.revision import Count, DigestText

NAMESPACE = "holdfast-backup"
FORMAT = 1
PACKS_MAX = 200_000

# schedule: it was due. order: an operator signed for it. hub: a hub brought it forward, without a signature.
Cause = Literal["schedule", "order", "hub"]


class Stored(Struct, frozen=True, forbid_unknown_fields=True):
    """One sealed object of a backup; `digest` is of its stored bytes."""

    digest: DigestText
    size_bytes: Count


class Receipt(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a node signs when a backup is complete: everything that is needed to check its stored bytes, and no
    name of a file. `previous` chains the backups of one service."""

    format: int
    fleet: DigestText
    service: str
    node: str
    sequence: Annotated[int, Meta(ge=1, le=canonical.INT_MAX)]
    epoch: Count
    generation: Annotated[int, Meta(ge=1, le=canonical.INT_MAX)]
    made_s: Count
    cause: Cause
    manifest: Stored
    packs: Annotated[tuple[Stored, ...], Meta(max_length=PACKS_MAX)]
    files: Count
    size_bytes: Count  # of the files
    deployment: str = ""  # that wrote the data
    revision: Count = 0
    method: str = ""
    volumes: tuple[str, ...] = ()  # that it holds whole
    partial: bool = False  # it holds the default set of a volume, and not all of it
    left_out: Count = 0  # sockets, devices and other file systems
    previous: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""  # digest of the receipt before

    @property
    def stored_bytes(self) -> int:
        return self.manifest.size_bytes + sum(pack.size_bytes for pack in self.packs)


class SignedReceipt(Struct, frozen=True, forbid_unknown_fields=True):
    receipt: bytes  # canonical Receipt
    signature: str  # SSHSIG by the node's key


class VerifiedReceipt(Struct, frozen=True):
    """Proof that a node signed for this backup. Only trust/receipts.py makes it."""

    receipt: Receipt
    digest: str

    @property
    def id(self) -> str:
        """What people type; long enough that no other backup of a fleet has it."""
        return self.digest[:16]
