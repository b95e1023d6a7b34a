"""The direct way between the two nodes of a move: the source stores its objects on the target's own disk."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from holdfast.model.move import Peer
from holdfast.ports.backup_target import BackupTarget

MOVE_PORT = 9445

# The key of a caller → the services that it hands over to this node now, with the epoch of each. Called by any thread.
Callers = Callable[[str], Mapping[str, int]]
Heard = Callable[[str, str], None]  # after each request of a caller: what it did, and the key, if it did so with one


class MoveLines(Protocol):
    @property
    def here(self) -> BackupTarget:
        """What this node got directly, and what it says itself."""
        ...

    def to(self, peer: Peer) -> BackupTarget:
        """`here` of that node, as far as it concerns this one. TryLater: it does not take calls now, which it shows
        within seconds; it proves its key, and this node proves its own."""
        ...

    async def serve(self, address: str, callers: Callers, heard: Heard) -> None:
        """Listen until cancelled. A caller that proves none of the keys gets no answer."""
        ...

    async def forget(self, but: Collection[str]) -> None:
        """Delete what is here of all services but these: copies, of which the source has the original."""
        ...
