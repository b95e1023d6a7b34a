"""What an agent accepted: the chain it walked, its manifest and contents. Survives the hub, a crash and a power cut."""

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
    said: bytes = b""  # the last manifest there was, while the newest revision does not name this node
    unread: bool = False  # manifests after it were never seen, so nobody knows which signature brought what
    stones: dict[str, Tombstone] = {}  # what was followed here and dropped since


class Acceptance(Protocol):
    def newest(self) -> Accepted | None: ...

    def links(self, first: int, last: int) -> Sequence[Link]:
        """Of what was walked here; may start later than asked, as this node joined later."""
        ...

    def accept(self, links: Sequence[Link], accepted: Accepted, blobs: Mapping[str, bytes]) -> None:
        """All or nothing, durable on return. Refuses (Corrupt) to go back or sideways."""
        ...

    def blob(self, digest: str) -> bytes | None: ...

    def missing(self, digests: Sequence[str]) -> list[str]: ...

    def close(self) -> None: ...
