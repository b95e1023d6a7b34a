"""Which hub of a fleet is the newest: the statement that operators sign when they restore one. Values only."""

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.revision import Count, Head

NAMESPACE = "holdfast-hub-generation"  # signed by operators, grade destroy


class Generation(Struct, frozen=True, forbid_unknown_fields=True):
    """`head` is the newest revision of the file that was restored."""

    fleet: str
    number: Count
    id: str  # random: two restores of one file differ
    head: Head
    restored_s: Count

    @property
    def rank(self) -> tuple[int, int, str]:
        """Nodes follow the highest. Of two restores of the same file the later one is higher."""
        return self.number, self.restored_s, self.id


class SignedGeneration(Struct, frozen=True):
    generation: bytes  # canonical Generation
    signatures: tuple[str, ...]

    @property
    def digest(self) -> str:
        return canonical.digest(self.generation)


def decode(content: bytes) -> Generation:
    return canonical.decode(content, Generation, "the generation of the hub")


def stored(signed: SignedGeneration) -> bytes:
    return msgspec.json.encode(signed)


def restored(content: bytes, where: str) -> SignedGeneration:
    try:
        return msgspec.json.decode(content, type=SignedGeneration)
    except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
        raise Corrupt(
            f"the generation of the hub in {where} cannot be read: {trouble}",
            remedy="restore the state directory from a backup",
            code="generation_damaged",
        ) from trouble
