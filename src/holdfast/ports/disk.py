"""Small files of this program: read whole, replaced whole, durably and atomically."""

from typing import Protocol


class Disk(Protocol):
    def read(self, path: str, at_most: int) -> bytes | None:
        """The whole file, None if there is none. Refuses anything longer than `at_most` bytes."""
        ...

    def replace(self, path: str, content: bytes, mode: int = 0o600) -> None:
        """The old or the new content survives a crash, never a mix; on return the new one survives a power cut."""
        ...

    def make_directory(self, path: str, mode: int = 0o700) -> None: ...
