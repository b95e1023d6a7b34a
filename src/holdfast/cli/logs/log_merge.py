"""Merge log lines of several nodes: past lines by time, new lines as they arrive. Pure."""

from collections import deque
from collections.abc import Iterable

from holdfast.model.stream import StreamedLine

WAITING_LINES = 512  # of one node


class Merging:
    """A node is `behind` until it has sent its past lines; lines of other nodes wait for it until then."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._lines: dict[str, deque[StreamedLine]] = {node: deque() for node in nodes}
        self._behind = set(self._lines)

    def has_room(self, node: str) -> bool:
        return len(self._lines[node]) < WAITING_LINES

    def add(self, node: str, line: StreamedLine) -> None:
        self._lines[node].append(line)

    def caught_up(self, node: str) -> None:
        """Also called when the node left or is late. Calling it twice is harmless."""
        self._behind.discard(node)

    def next(self) -> tuple[str, StreamedLine] | None:
        """The oldest line, unless an older one may still arrive."""
        if any(not self._lines[node] for node in self._behind):
            return None
        there = [(lines[0].at_s, node) for node, lines in self._lines.items() if lines]
        if not there:
            return None
        node = min(there)[1]
        return node, self._lines[node].popleft()
