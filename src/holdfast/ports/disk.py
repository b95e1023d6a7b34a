"""Small files of this program: read whole, replaced whole, durably and atomically."""

from collections.abc import Mapping
from typing import Protocol


class Disk(Protocol):
    def read(self, path: str, at_most: int) -> bytes | None:
        """The whole file, None if there is none. Refuses anything longer than `at_most` bytes."""
        ...

    def replace(self, path: str, content: bytes, mode: int = 0o600) -> None:
        """The old or the new content survives a crash, never a mix; on return the new one survives a power cut."""
        ...

    def remove(self, path: str) -> None:
        """On return the file stays away after a power cut. One that does not exist is no error."""
        ...

    def make_directory(self, path: str, mode: int = 0o700) -> None: ...

    def make_tree(self, path: str, files: Mapping[str, bytes], mode: int = 0o700, file_mode: int = 0o600) -> None:
        """A directory with these files, by relative path: whole or not at all. `path` does not exist or is an empty
        directory. A killed process leaves at most a hidden directory beside the files."""
        ...
