"""The open findings of this node: one for each code and address, with the time at which it began."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model.report import NodeFinding

FINDINGS_MAX = 100


class Findings:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._found: dict[tuple[str, str], NodeFinding] = {}
        self.changes = 0  # a report is built again only when this changed

    def add(self, code: str, message: str, remedy: str, address: str = "") -> bool:
        """True if the finding is new."""
        known = self._found.get((code, address))
        if known is not None and (known.message, known.remedy) == (message, remedy):
            return False
        if known is None and len(self._found) >= FINDINGS_MAX:
            return False
        since_s = known.since_s if known else float(int(self._now_s()))
        self._found[code, address] = NodeFinding(code, message, remedy, since_s, address)
        self.changes += 1
        return known is None

    def add_trouble(self, code: str, trouble: HoldfastError, address: str = "") -> bool:
        return self.add(code, trouble.message, trouble.remedy, address)

    def clear(self, code: str, address: str = "") -> None:
        if self._found.pop((code, address), None) is not None:
            self.changes += 1

    def all(self) -> tuple[NodeFinding, ...]:
        return tuple(replace(found) for _, found in sorted(self._found.items()))
