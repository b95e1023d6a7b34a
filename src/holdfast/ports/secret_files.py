"""Opened secrets as files for containers, in memory-backed storage. A reboot removes them; only the container that
mounts a file can read it."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class SecretFiles(Protocol):
    def put(self, container: str, files: Mapping[str, bytes]) -> Mapping[str, str]:
        """Replace the files of this container with exactly these; returns file → absolute path. Repeatable, with the
        same paths every time."""
        ...

    def forget(self, container: str) -> None:
        """Does nothing if there are none."""
        ...

    def containers(self) -> Sequence[str]:
        """Containers that have files, sorted."""
        ...
