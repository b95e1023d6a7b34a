"""The store of what an agent accepted: chain, manifest and contents. It survives a crash and a power cut."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.record import Link
from holdfast.model.revision import Head, Tombstone


class Accepted(Struct, frozen=True, omit_defaults=True):
    """`manifest` is what the newest revision says; `in_force` differs while something is parked."""

    fleet: str
    head: Head
    link: Link
    manifest: bytes
    in_force: bytes
    said: bytes = b""  # the last manifest of this node, while the newest revision does not name this node
    unread: bool = False  # manifests after it were never seen, so it is unknown which signature brought which entry
    stones: dict[str, Tombstone] = {}  # what this node followed once and has dropped since
    approved: dict[str, tuple[str, ...]] | None = None  # by address, with grade destroy; None: all that is in force


class Acceptance(Protocol):
    def newest(self) -> Accepted | None: ...

    def links(self, first: int, last: int) -> Sequence[Link]:
        """Links of the chain this node verified; may start later than asked, because this node joined later."""
        ...

    def accept(self, links: Sequence[Link], accepted: Accepted, blobs: Mapping[str, bytes]) -> None:
        """All or nothing, durable on return. Raises Corrupt for an older revision and for a fork."""
        ...

    def blob(self, digest: str) -> bytes | None: ...

    def missing(self, digests: Sequence[str]) -> list[str]: ...

    def close(self) -> None: ...
