"""Opened secrets as files for containers, in memory-backed storage: gone after a reboot, out of everybody's reach but
the container that a file is mounted into."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class SecretFiles(Protocol):
    def put(self, container: str, files: Mapping[str, bytes]) -> Mapping[str, str]:
        """Exactly these files for this container, whatever was there; answers file → absolute path. Repeatable, and
        the same paths every time."""
        ...

    def forget(self, container: str) -> None:
        """Nothing if there are none."""
        ...

    def containers(self) -> Sequence[str]:
        """Those that have files, sorted."""
        ...
