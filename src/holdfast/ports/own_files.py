"""What a replaced machine needs of a node and no revision has: certificates, and the state of its proxy (M-34)."""

from typing import Protocol


class OwnFiles(Protocol):
    """Never the key of the node, its journal, counters or nonces: what they prove is about one machine only."""

    def has_any(self) -> bool:
        """A node that serves no route has nothing that is worth a backup."""
        ...

    def gather(self) -> str:
        """Copies of them, in a directory of their own; answers its path. Blocking."""
        ...

    def clear(self) -> None:
        """The copies are gone. Does nothing if there are none."""
        ...
