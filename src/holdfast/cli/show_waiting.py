"""Show what a waiting command waits for: each reason once, and a reminder every 15 s."""

from collections.abc import Sequence

from holdfast.cli.terminal import Terminal, harmless
from holdfast.status.blockers import Blocker

EVERY_S = 15.0
NAMED_MAX = 3


class WaitingLines:
    """On a terminal a live line shows the progress; elsewhere a line is printed every 15 s."""

    def __init__(self, terminal: Terminal, began_s: float) -> None:
        self._terminal = terminal
        self._began_s = began_s
        self._said_s = began_s
        self._told: set[tuple[str, str, str]] = set()

    def show(self, found: Sequence[Blocker], waiting: Sequence[str], monotonic_s: float) -> None:
        for one in found:
            key = (one.node, one.code, one.address)
            if key not in self._told:
                self._told.add(key)
                mark = self._terminal.paint("yellow", "waiting")
                self._terminal.remark(f"{_line(one.node)}  {mark}: {_line(one.text)}")
        if waiting and not self._terminal.is_live() and self.due_in_s(monotonic_s) <= 0:
            self._said_s = monotonic_s
            more = f"; and {len(waiting) - NAMED_MAX} more" if len(waiting) > NAMED_MAX else ""
            named = "; ".join(waiting[:NAMED_MAX])
            self._terminal.remark(_line(f"still waiting after {monotonic_s - self._began_s:.0f} s: {named}{more}"))

    def due_in_s(self, monotonic_s: float) -> float:
        """Seconds until the next reminder."""
        return self._said_s + EVERY_S - monotonic_s


def _line(words: str) -> str:
    """One line without control characters, so that a text cannot imitate another step."""
    return harmless(words.replace("\n", " "))
