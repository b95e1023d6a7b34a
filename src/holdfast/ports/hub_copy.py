"""The sealed file of the hub, for the node that keeps it on its storage targets."""

from typing import Protocol


class HubCopy(Protocol):
    """The file is sealed to operators: this node cannot open it."""

    async def fetch(self) -> str:
        """A file that the hub made within the last minute, in a directory of its own; answers the path of that
        directory. Raises Corrupt if it is not what the hub announced, Failed if it is too long or the hub cannot make
        it."""
        ...

    def clear(self) -> None:
        """The copy is gone. Does nothing if there is none. Blocking."""
        ...
