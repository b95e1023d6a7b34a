"""The open findings of this node: one for each code and address, with the time at which it began."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model.report import NodeFinding

FINDINGS_MAX = 100  # in a report
KEPT_MAX = 2_000


class Findings:
    """`say` writes to the log of the agent, where they are seen also while no hub shows them."""

    def __init__(
        self, now_s: Callable[[], float], say: Callable[[str, dict[str, object]], None] = lambda event, fields: None
    ) -> None:
        self._now_s = now_s
        self._say = say
        self._found: dict[tuple[str, str], NodeFinding] = {}
        self.changes = 0  # a report is built again only when this changed

    def add(self, code: str, message: str, remedy: str, address: str = "") -> bool:
        """True if the finding is new."""
        known = self._found.get((code, address))
        if known is not None and (known.message, known.remedy) == (message, remedy):
            return False
        if known is None and len(self._found) >= KEPT_MAX:
            return False
        since_s = known.since_s if known else float(int(self._now_s()))
        self._found[code, address] = NodeFinding(code, message, remedy, since_s, address)
        self.changes += 1
        if known is None:
            self._say("finding", {"code": code, "address": address, "message": message, "remedy": remedy})
        return known is None

    def add_trouble(self, code: str, trouble: HoldfastError, address: str = "") -> bool:
        return self.add(code, trouble.message, trouble.remedy, address)

    def clear(self, code: str, address: str = "") -> None:
        if self._found.pop((code, address), None) is not None:
            self.changes += 1
            self._say("finding_gone", {"code": code, "address": address})

    def all(self) -> tuple[NodeFinding, ...]:
        """If there are too many: some of each code, so that many of one kind hide no other."""
        if len(self._found) <= FINDINGS_MAX:
            return tuple(replace(found) for _, found in sorted(self._found.items()))
        turns: dict[str, int] = {}
        ranked = []
        for key in sorted(self._found):
            turns[key[0]] = turns.get(key[0], 0) + 1
            ranked.append((turns[key[0]], key))
        shown = sorted(key for _, key in sorted(ranked)[: FINDINGS_MAX - 1])
        return (*(replace(self._found[key]) for key in shown), self._cut())

    def _cut(self) -> NodeFinding:
        since_s = max(found.since_s for found in self._found.values())
        text = f"this node has {len(self._found)} findings, and its report names {FINDINGS_MAX - 1} of them"
        return NodeFinding("report_cut", text, "correct the causes of these; the others are shown then", since_s)
