"""Everything that a command waits for."""

from msgspec import Struct

from holdfast.status.dns import NamesAwaited
from holdfast.status.edges.settled import EdgeAwaited
from holdfast.status.moves import MoveAwaited
from holdfast.status.services.settled import ServiceAwaited


class Wanted(Struct, frozen=True):
    """`asked`: nodes whose manifest the command changed."""

    services: tuple[ServiceAwaited, ...] = ()
    edges: tuple[EdgeAwaited, ...] = ()
    names: NamesAwaited = NamesAwaited()
    asked: frozenset[str] = frozenset()
    moves: tuple[MoveAwaited, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes whose reports are needed."""
        edges = {one.edge for one in self.edges if one.edge}
        moving = {node for one in self.moves for node in one.nodes}
        return frozenset({one.node for one in self.services} | edges | set(self.names.nodes) | moving)
