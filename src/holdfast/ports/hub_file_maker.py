"""The sealed file of a running hub, for the nodes that keep it. Blocking, but never for long; for any thread."""

from typing import Protocol

from msgspec import Struct

FRESH_S = 60.0


class MadeHubFile(Struct, frozen=True):
    digest: str  # sha256 of the sealed bytes
    size_bytes: int


class HubFileMaker(Protocol):
    """Makes one file at a time, and not more than one a minute."""

    def ask(self) -> MadeHubFile | None:
        """A file that is not older than FRESH_S; None: one is being made, ask again. Raises why none can be made."""
        ...

    def part(self, digest: str, first: int, at_most: int) -> bytes | None:
        """Of the newest file; None: it is another one by now."""
        ...
