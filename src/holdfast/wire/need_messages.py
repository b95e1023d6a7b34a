"""What the node of a service and the node of its provider send each other about needs. Values only."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.revision import Count
from holdfast.model.schema import NameText

HandleText = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
SEALED_BYTES_MAX = 128 * 1024
TTL_S_MIN = 600.0
GONE_MAX = 100


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """Only which need, and which generation the node has of it: everything else is in the provider's own manifest.
    `revision` is the newest that the node accepted."""

    service: NameText
    need: NameText
    has: Count = 0
    revision: Count = 0


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """`sealed` opens with the key of the node that asked."""

    handle: HandleText
    generation: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    sealed: Annotated[bytes, Meta(max_length=SEALED_BYTES_MAX)]
    ttl_s: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """Inside the seal: what the values are for, and the values."""

    fleet: str
    service: str
    need: str
    node: str
    handle: str
    values: dict[str, str]


class Told(Struct, frozen=True, forbid_unknown_fields=True):
    """How many grants of that node this provider still has, and which of the named handles it does not have: it took
    them back. Of many only some."""

    grants: int
    gone: tuple[HandleText, ...] = ()
