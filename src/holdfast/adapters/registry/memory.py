"""A registry in memory: has exactly the references that were pushed."""

from collections.abc import Mapping, Sequence

from holdfast.ports.registry import ABSENT


class MemoryRegistry:
    def __init__(self, digests: Mapping[str, str] | None = None) -> None:
        self._digests = dict(digests or {})
        self.down = False  # simulates an unreachable registry

    def push(self, reference: str, digest: str) -> None:
        self._digests[reference] = digest

    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        if self.down:
            return {}
        return {reference: self._digests.get(reference, ABSENT) for reference in references}
