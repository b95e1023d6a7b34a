"""Values of fulfilled needs as files for containers, in memory-backed storage. A reboot removes them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

NeedKey = tuple[str, str]  # service, name of the need


class NeedFiles(Protocol):
    def put(self, key: NeedKey, values: Mapping[str, str]) -> None:
        """One file for each field, all replaced at once: a reader that opens them through the directory never finds
        values of two generations. Containers that have the directory see the new ones."""
        ...

    def directory(self, key: NeedKey) -> str:
        """Its absolute path, the same every time; it is made if it is missing, and may be empty."""
        ...

    def has(self, key: NeedKey) -> bool:
        """Whether values are there."""
        ...

    def forget(self, key: NeedKey) -> None:
        """Does nothing if there are none."""
        ...

    def known(self) -> Sequence[NeedKey]: ...
