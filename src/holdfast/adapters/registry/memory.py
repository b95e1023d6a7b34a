"""A registry in memory: resolves exactly the references that were pushed."""

from collections.abc import Mapping, Sequence


class MemoryRegistry:
    def __init__(self, digests: Mapping[str, str] | None = None) -> None:
        self._digests = dict(digests or {})
        self.down = False  # simulates an unreachable registry

    def push(self, reference: str, digest: str) -> None:
        self._digests[reference] = digest

    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        if self.down:
            return {}
        return {reference: self._digests[reference] for reference in references if reference in self._digests}
