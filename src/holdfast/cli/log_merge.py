"""Lines of several nodes as one: in order of time as long as somebody still tells what was, then as they come. Pure."""

from collections import deque
from collections.abc import Iterable

from holdfast.model.stream import StreamedLine

WAITING_LINES = 512  # of one node


class Merging:
    """A node is `behind` until it has told what was before; for such a one the others wait, for no other."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._lines: dict[str, deque[StreamedLine]] = {node: deque() for node in nodes}
        self._behind = set(self._lines)

    def has_room(self, node: str) -> bool:
        return len(self._lines[node]) < WAITING_LINES

    def add(self, node: str, line: StreamedLine) -> None:
        self._lines[node].append(line)

    def caught_up(self, node: str) -> None:
        """Also when it left, or is not waited for any longer. More than once is no mistake."""
        self._behind.discard(node)

    def next(self) -> tuple[str, StreamedLine] | None:
        """The oldest line that is there, unless an older one may still come."""
        if any(not self._lines[node] for node in self._behind):
            return None
        there = [(lines[0].at_s, node) for node, lines in self._lines.items() if lines]
        if not there:
            return None
        node = min(there)[1]
        return node, self._lines[node].popleft()
